"""Messages that carry a claim: each lands only with the agent that has the key, and asks for it when it could land.

Rules:
1. The question is put when the agent is ready for the message, not before: a busy agent must not keep others from work
   that it does not begin.
2. An arbiter on another host is asked once an opportunity; what it said is remembered until the message has landed or
   ended. Until it first answers, or does not, what came later from the same sender waits behind the message.
3. An arbiter that does not answer is asked again; the message waits, and what came later passes it: order is about
   messages that can land.
4. An arbiter that is not in the fleet can never decide: the message ends `claim-undecided`.
"""

from __future__ import annotations

import hashlib

from fleettrio.core.actions import Action
from fleettrio.core.claims import Claims, split_key
from fleettrio.core.compose import Identity
from fleettrio.core.gate import End, Hold, Verdict
from fleettrio.core.inbox import Inbox
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState, Key
from fleettrio.core.rpc import Answer, Failure, Rpc
from fleettrio.core.rules import TimerRules
from fleettrio.core.timers import Timers
from fleettrio.ids import Gid, HostId, MsgId, Now, Seconds
from fleettrio.wire.gids import new_msg_id

__all__ = ("ClaimGate",)

ASK_AGAIN_S = 5.0
MOST_ASKED = 1_000
CLAIMED_BY, CLAIM_UNDECIDED = "claimed-by", "claim-undecided"


class ClaimGate:
    def __init__(self, me: Identity, roster: Roster, inbox: Inbox, claims: Claims, rpc: Rpc, timers: Timers) -> None:
        self._me = me
        self._roster = roster
        self._inbox = inbox
        self._claims = claims
        self._rpc = rpc
        self._timers = timers
        self._said: dict[Key, Verdict | None] = {}
        """What a remote arbiter said of a message; None: it has its key. While it is asked, why it waits."""
        self._silent: set[Key] = set()
        """Messages whose arbiter did not answer when it was last asked (rule 3)."""
        self._asked = 0
        self.timer_rules: TimerRules = {"claim": self._ask_again}

    def judge(self, row: InboxRow, _now: Now) -> Verdict | None:
        """While its arbiter is asked it stays; once another has its key, or nobody ever can, it ends."""
        if not row.claim:
            return None
        arbiter, _ = _arbiter_of(row)
        if not self._roster.is_of_fleet(arbiter):
            return End(InboxState.FAILED, CLAIM_UNDECIDED, f"no host {arbiter!r} is in the fleet")
        return self._said.get(row.key)

    def take(self, row: InboxRow, now: Now) -> tuple[Verdict | None, list[Action]]:
        if not row.claim:
            return None, []
        arbiter, key = _arbiter_of(row)
        if arbiter == self._me.host:
            return self._decide(row, key, now)
        at = row.key
        if at in self._said:  # ours: `judge` has let it pass
            self._forget(at)
            return None, []
        if len(self._said) > MOST_ASKED:
            for gone in self._said.keys() - self._inbox.rows.keys():  # of messages that ended meanwhile
                self._forget(gone)
        self._said[at] = Hold(f"asking {arbiter} who has {key!r}", passes=at in self._silent)
        actions = self._ask(row, arbiter, key, now)
        return self._said[at], actions  # where it cannot even be asked, that is known by now

    def _forget(self, at: Key) -> None:
        self._said.pop(at, None)
        self._silent.discard(at)

    def _decide(self, row: InboxRow, key: str, now: Now) -> tuple[Verdict | None, list[Action]]:
        try:
            claim, actions = self._claims.claim(key, row.gid, self._me.host, now)
        except Failure as failure:
            return Hold(str(failure)), []
        if claim.holder == row.gid:
            return None, actions
        return self._taken(self._roster.address(claim.holder, claim.host)), actions

    @staticmethod
    def _taken(holder: str) -> End:
        return End(InboxState.FAILED, CLAIMED_BY, holder)

    def _ask(self, row: InboxRow, arbiter: HostId, key: str, now: Now) -> list[Action]:
        entity, at = self._roster.entities[row.gid], row.key
        self._asked += 1
        seed = hashlib.blake2b(f"{row.msg_id} {row.gid} {self._asked}".encode(), digest_size=10).digest()

        def then(answer: Answer, now: Now) -> list[Action]:
            if answer.error or not isinstance(answer.value, dict):
                why = answer.error or f"{arbiter} gave an answer that is not understood"
                self._silent.add(at)
                self._said[at] = Hold(f"{arbiter} decides who has {key!r}: {why}", passes=True)
                self._timers.set(("claim", row.msg_id, row.gid), Seconds(now.mono + ASK_AGAIN_S))
                return []
            said = answer.value
            is_ours = said.get("granted") is True
            self._said[at] = None if is_ours else self._taken(str(said.get("name", "another"))[:96])
            self._silent.discard(at)
            return self._inbox.intake.let_go([row.gid], now)

        args = {"key": key, "gid": str(row.gid), "salt": entity.salt}
        msg_id = new_msg_id(now.wall, seed)
        return self._rpc.call(arbiter, "claim", args, then, now, msg_id=msg_id, trace_id=row.trace_id)

    def _ask_again(self, name: tuple[str, ...], now: Now) -> list[Action]:
        """The arbiter did not answer: the message is judged anew."""
        msg_id, gid = MsgId(name[0]), Gid(name[1])
        self._said.pop((msg_id, gid), None)
        return self._inbox.intake.let_go([gid], now)


def _arbiter_of(row: InboxRow) -> tuple[HostId, str]:
    named, key = split_key(row.claim)
    return named or row.from_host, key
