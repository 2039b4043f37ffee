"""What became of messages: other hosts are asked (QUERY), or to give ours back (RECALL), and are told (OUTCOME).

A RECALL that changes nothing here within a minute is asked again, a little less often each time: it, or its answer, may
have met a full queue, and a session may last for weeks. So is a QUERY about a question or an answer that is open: after
a link that broke, whoever waits for it learns by that alone whether it was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fleettrio.core.actions import Action, Note, Record
from fleettrio.core.compose import Identity, control
from fleettrio.core.inbox import Inbox
from fleettrio.core.intake import LEDGER_LOST
from fleettrio.core.link import ForControl, Link
from fleettrio.core.lookups import LookUps
from fleettrio.core.notices import MOST_IN_ONE, fate_of
from fleettrio.core.outbox import PARTLY, Outbox
from fleettrio.core.rates import Buckets
from fleettrio.core.recalled import PER_HOST, RECALL_LIMIT, as_told, is_trace, leaf_for, trace
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState, SentRow
from fleettrio.core.rules import TimerRules
from fleettrio.core.timers import Timers
from fleettrio.ids import Gid, HostId, Leaf, MsgId, Now, Seconds, TraceId, WallMs
from fleettrio.wire.bodies import Fate, Outcome, Question, QuestionItem
from fleettrio.wire.envelope import Kind
from fleettrio.wire.gids import msg_id_wall_ms
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("LIVE", "Fates")

RECALL_FIRST_S, LIVE_FIRST_S, MOST_S = 60.0, 5.0, 3_600.0
LIVE = frozenset({Kind.ASK, Kind.ANSWER})
"""What somebody waits for in a call."""


class Fates:
    def __init__(
        self,
        me: Identity,
        link: Link,
        roster: Roster,
        inbox: Inbox,
        outbox: Outbox,
        lookups: LookUps,
        timers: Timers,
    ) -> None:
        self._timers = timers
        self._again_s: dict[tuple[str, HostId], float] = {}
        """After how long a host is asked again, by the timer that does it."""
        self._me = me
        self._link = link
        self._roster = roster
        self._inbox = inbox
        self._outbox = outbox
        self._lookups = lookups
        self._traces = Buckets(PER_HOST)
        self.held: Callable[[InboxRow], str] = lambda row: row.held
        """Why a message waits although its agent could take it."""
        self.timer_rules: TimerRules = {
            "bound": self._bound_passed,
            "look": self._look,
            "partly": self._partly_passed,
            "live": lambda name, now: self._ask_live(HostId(name[0]), now),
            "recall": lambda name, now: self._recall(HostId(name[0]), now),
        }

    # --- asking

    def ask(self, host: HostId, now: Now) -> list[Action]:
        """QUERY: what became of our open messages to `host`?"""
        self._again_s["live", host] = LIVE_FIRST_S
        return self._query(host, self._outbox.to_ask(host), now)

    def _ask_live(self, host: HostId, now: Now) -> list[Action]:
        return self._query(host, [row for row in self._outbox.to_ask(host) if row.kind in LIVE], now)

    def _query(self, host: HostId, rows: list[SentRow], now: Now) -> list[Action]:
        asked = self._question(Kind.QUERY, host, rows, now)
        if asked and any(row.kind in LIVE for row in rows):
            self._ask_again("live", host, now)
        return asked

    def recall(self, host: HostId, now: Now) -> list[Action]:
        """RECALL: what we want back from `host`."""
        self._again_s["recall", host] = RECALL_FIRST_S
        return self._recall(host, now)

    def _recall(self, host: HostId, now: Now) -> list[Action]:
        asked = self._question(Kind.RECALL, host, self._outbox.to_recall(host), now)
        if asked:
            self._ask_again("recall", host, now)
        return asked

    def _ask_again(self, timer: str, host: HostId, now: Now) -> None:
        """Each time twice as late. Without a link it is asked when the host is heard in the next session."""
        again_s = self._again_s.get((timer, host), RECALL_FIRST_S)
        self._again_s[timer, host] = min(2 * again_s, MOST_S)
        self._timers.set((timer, host), Seconds(now.mono + again_s))

    def _bound_passed(self, name: tuple[str, ...], now: Now) -> list[Action]:
        row, actions = self._outbox.bound_passed((MsgId(name[0]), Gid(name[1])), now)
        return [*actions, *(self.recall(row.to_host, now) if row else [])]

    def _look(self, _: tuple[str, ...], now: Now) -> list[Action]:
        silent, actions = self._outbox.look(now)
        for host in dict.fromkeys(row.to_host for row in silent):
            actions += self._question(Kind.QUERY, host, [row for row in silent if row.to_host == host], now)
        return actions

    def _partly_passed(self, name: tuple[str, ...], now: Now) -> list[Action]:
        """A broadcast that some inbox did not take: whether it was this member's is asked."""
        row = self._outbox.rows.get((MsgId(name[0]), Gid(name[1])))
        return self._question(Kind.QUERY, row.to_host, [row], now) if row and row.reason == PARTLY else []

    def _question(self, kind: Kind, host: HostId, rows: list[SentRow], now: Now) -> list[Action]:
        if host == self._me.host or not self._link.is_open:
            return []
        actions: list[Action] = []
        for start in range(0, len(rows), MOST_IN_ONE):
            some = rows[start : start + MOST_IN_ONE]
            asked = tuple(QuestionItem(msg_id=r.msg_id, gid=r.gid, leaf=r.leaf, expires_at=r.expires_at) for r in some)
            envelope = control(self._me, kind, host, trace_id=some[0].trace_id, now=now)
            actions.append(self._link.publish(ForControl(), envelope, Question(items=asked).to_bytes()))
        return actions

    # --- being asked

    def on_query(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        asked = Question.from_bytes(message.body).items
        host, trace_id = message.envelope.host, message.envelope.trace_id

        def then(rows: Sequence[InboxRow | None], _: Sequence[SentRow | None], now: Now) -> list[Action]:
            fates = [self._fate(a, self._theirs(a, row, host), host, now) for a, row in zip(asked, rows, strict=True)]
            return self._answer(host, trace_id, fates, now)

        return self._lookups.look_up([(MsgId(a.msg_id), Gid(a.gid)) for a in asked], (), then, now)

    def on_recall(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        asked = Question.from_bytes(message.body).items
        host, trace_id = message.envelope.host, message.envelope.trace_id

        def then(rows: Sequence[InboxRow | None], _: Sequence[SentRow | None], now: Now) -> list[Action]:
            actions: list[Action] = []
            fates = []
            for a, loaded in zip(asked, rows, strict=True):
                found = self._inbox.ledger.get((MsgId(a.msg_id), Gid(a.gid))) or loaded  # named twice in one list
                row = self._theirs(a, found, host)
                is_free = found is None or (row is None and _may_be_marked(found, host))
                if is_free and not self._is_before_birth(a, host):
                    if not self._traces.take(host, now.wall):
                        fates.append(self._fate(a, None, host, now, RECALL_LIMIT))
                        continue
                    key, leaf = (MsgId(a.msg_id), Gid(a.gid)), Leaf(a.leaf)
                    row = trace(found, *key, leaf, host, WallMs(a.expires_at), trace_id, now)
                    self._inbox.ledger.recent.put(key, row)
                    actions.append(Record(row))
                    row = as_told(row, host)
                elif row is not None:
                    row, more = self._inbox.recall(row, now)
                    actions += more
                fates.append(self._fate(a, row, host, now))
            if over := sum(fate.reason == RECALL_LIMIT for fate in fates):
                text = f"it calls back more than can be kept: {over} may still be delivered"
                actions.append(Note("recall", None, None, trace_id, host, RECALL_LIMIT, text, alarm=True))
            return [*actions, *self._answer(host, trace_id, fates, now)]

        return self._lookups.look_up([(MsgId(a.msg_id), Gid(a.gid)) for a in asked], (), then, now)

    def _theirs(self, asked: QuestionItem, row: InboxRow | None, host: HostId) -> InboxRow | None:
        """Only the host that signed a message, naming its very leaf, has a say in it."""
        if row is None or leaf_for(row, host) != asked.leaf:
            return None
        if is_trace(row):
            return as_told(row, host)
        return row if row.from_host == host else None

    def _is_before_birth(self, asked: QuestionItem, host: HostId) -> bool:
        return self._inbox.intake.is_before_birth(msg_id_wall_ms(MsgId(asked.msg_id)), host)

    def _fate(self, asked: QuestionItem, row: InboxRow | None, host: HostId, now: Now, why_absent: str = "") -> Fate:
        if row is not None:
            row = msgspec.structs.replace(row, held=self.held(row))
            return fate_of(row, takes=self._roster.takes(row.gid))
        lost = self._is_before_birth(asked, host)
        return Fate(
            msg_id=asked.msg_id,
            gid=asked.gid,
            leaf=asked.leaf,
            state=str(InboxState.UNCONFIRMED) if lost else "absent",
            reason=LEDGER_LOST if lost else why_absent,
            detail="",
            via="",
            at=now.wall,
        )

    def _answer(self, host: HostId, trace_id: TraceId, fates: list[Fate], now: Now) -> list[Action]:
        if not fates:
            return []
        envelope = control(self._me, Kind.OUTCOME, host, trace_id=trace_id, now=now, re=MsgId(fates[0].msg_id))
        return [self._link.publish(ForControl(), envelope, Outcome(fates=tuple(fates)).to_bytes())]


def _may_be_marked(row: InboxRow, host: HostId) -> bool:
    """True where there is no message: other traces are, or what `host` itself has ended before it came."""
    return is_trace(row) or (not row.leaf and row.from_host == host)
