"""A brief wants an answer: which messages an agent took in its turn, and what came of them when that turn ended.

    injected ──its agent is at work──► working ──REPLY──► answered
                                          ├──turn over, its last words are known──► answered (auto)
                                          └──turn over──► ended (no answer: …) ──a later REPLY──► answered

Rules:
1. Only what was put into an agent and wants an answer. `wantsReply = false` has none of this.
2. A turn is over when its harness says so (`TurnEnded`), or when the agent was *seen* at work and then stays idle for
   2 s, or is gone. Being idle alone proves nothing: many programs do not show that they work, and that one works
   because something was put into it is no sight of it, after a restart either. Whoever says it first, says it for that
   turn: what is seen of the agent later is of the next one.
3. Last words are sent as the answer, marked `auto`, only after a turn that ended by itself: not after an interrupt, an
   error, or a turn in which the person typed; and only where the agent or its profile wants it (`auto`). With `nag` it
   is reminded once of each message, before its turn ends; with `manual` nothing is done.
4. `ended` is the brief's own word, owed to its sender's host until it is confirmed, as any other (`notices`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from fleettrio.core.actions import Action, Record, Resolve
from fleettrio.core.calls import Unanswered
from fleettrio.core.entity import Entity
from fleettrio.core.events import AgentSeen, TurnEnded
from fleettrio.core.harness import NagAsked
from fleettrio.core.ledger import Ledger
from fleettrio.core.notices import Notices
from fleettrio.core.rows import ANSWERED, AUTO, ENDED, InboxRow, InboxState, Key
from fleettrio.core.rules import Rules, TimerRules
from fleettrio.core.timers import Timers
from fleettrio.ids import Gid, MsgId, Now, Seconds

__all__ = ("Briefs",)

SETTLED_S = 2.0
"""Idle for so long after work: between two steps of one turn a screen may look so for a moment."""
MOST = 256
"""Messages that one turn is remembered to have taken."""
NAG = "nag"
_ENDED_BY_ITSELF = "done"
_WHY = {
    _ENDED_BY_ITSELF: "its turn is over",
    "interrupt": "its turn was interrupted",
    "error": "its turn ended in an error",
    "typed": "the person typed in that turn",
}

Say = Callable[[InboxRow, bytes, MsgId, Now], list[Action]]
"""Send last words as the answer to a brief, under this msgId."""


class _Turn(msgspec.Struct):
    keys: dict[Key, InboxRow] = msgspec.field(default_factory=dict)
    worked: bool = False
    """It was seen at work since."""
    typed: bool = False
    """The person typed in it."""
    nagged: set[Key] = msgspec.field(default_factory=set)
    """Messages that its agent was reminded of."""


class Briefs:
    def __init__(self, ledger: Ledger, notices: Notices, timers: Timers) -> None:
        self._ledger = ledger
        self._notices = notices
        self._timers = timers
        self._turns: dict[Gid, _Turn] = {}
        self._ending: set[Gid] = set()
        self._early: dict[Key, None] = {}
        """What was answered before it was known that its agent has it."""
        self._at_work: set[Gid] = set()
        """Agents that were seen at work, and not idle since."""
        self.mode_of: Callable[[Gid], str] = lambda _gid: AUTO
        """What becomes of an answer that an agent does not give: `auto`, `nag`, `manual`."""
        self.turn_over: Callable[[Gid, Now], list[Action]] = lambda _gid, _now: []
        """A turn ends by itself: what that proves of what its agent took (`handouts`)."""
        self.say: Say | None = None
        """None: last words are not sent from here."""
        self.rules: Rules = {TurnEnded: self._turn_ended, NagAsked: self._nag}
        self.timer_rules: TimerRules = {"turn-over": lambda name, now: self._over(Gid(name[0]), "", now)}

    def start(self, rows: Iterable[InboxRow], entities: Iterable[Entity]) -> None:
        """What was put in and has no answer yet: its turn may go on."""
        self._at_work.update(e.gid for e in entities if e.shown and e.status in ("working", "blocked"))
        for row in rows:
            if row.state is InboxState.INJECTED and row.wants_reply and not row.answer:
                self._take(row)

    def is_ending(self, gid: Gid) -> bool:
        """True while it is to be looked at whether its turn is really over."""
        return gid in self._ending

    def count(self, gid: Gid) -> int:
        """How many messages the turn of an agent has to answer."""
        turn = self._turns.get(gid)
        return len(turn.keys) if turn else 0

    # --- a turn begins, goes on, ends

    def typed(self, gid: Gid, now: Now) -> list[Action]:
        """A person typed a prompt: a turn begins, or the one that goes on is the person's, too."""
        over = self._over(gid, "", now) if gid in self._ending else []
        self._turns.setdefault(gid, _Turn(worked=gid in self._at_work)).typed = True
        return over

    def took(self, row: InboxRow, now: Now) -> list[Action]:
        """It was put in: the turn that goes on has it, or a new one begins with it."""
        over = self._over(row.gid, "", now) if row.gid in self._ending else []
        if self._early.pop(row.key, 0) is None:
            return [*over, *self._mark(row, ANSWERED, "", now, tell=False)]
        if row.state is InboxState.INJECTED and row.wants_reply:
            self._take(row)
        return over

    def _take(self, row: InboxRow) -> None:
        keys = self._turns.setdefault(row.gid, _Turn(worked=row.gid in self._at_work)).keys
        keys[row.key] = row
        if len(keys) > MOST:
            del keys[next(iter(keys))]

    def seen(self, before: Entity, event: AgentSeen, now: Now) -> list[Action]:
        """An agent was looked at."""
        if event.looked and event.status == "working":
            self._at_work.add(event.gid)
        elif event.status != "blocked":
            self._at_work.discard(event.gid)
        turn = self._turns.get(event.gid)
        if turn is None:
            return []
        if event.status in ("away", "stopping", "gone"):
            return self._over(event.gid, "its session ended", now)
        if event.status == "idle" and event.looked and turn.worked and event.gid not in self._ending:
            self._ending.add(event.gid)
            self._timers.set(("turn-over", event.gid), Seconds(now.mono + SETTLED_S))
        elif event.status in ("working", "blocked") and event.looked:
            turn.worked = True
            self._settle(event.gid)
        return []

    def _turn_ended(self, event: TurnEnded, now: Now) -> list[Action]:
        actions = self.turn_over(event.gid, now) if event.how == _ENDED_BY_ITSELF else []
        turn = self._turns.get(event.gid)
        how = "typed" if turn and turn.typed and event.how == _ENDED_BY_ITSELF else event.how
        is_wanted = how == _ENDED_BY_ITSELF and self.mode_of(event.gid) == AUTO
        has_words = event.words is not None and is_wanted and self.say is not None
        self._at_work.discard(event.gid)
        if has_words and turn is not None:
            for msg_id, (key, row) in zip(event.ids, list(turn.keys.items()), strict=False):
                del turn.keys[key]
                actions += self._answer(row, event.words or b"", msg_id, now)
        return [*actions, *self._over(event.gid, _WHY.get(how, how), now)]

    def _nag(self, event: NagAsked, now: Now) -> list[Action]:
        """What its agent is to be reminded of, each message once."""
        actions = self.turn_over(event.gid, now)
        turn = self._turns.get(event.gid)
        is_wanted = turn is not None and not turn.typed and self.mode_of(event.gid) == NAG
        keys = [key for key in turn.keys if key not in turn.nagged] if turn and is_wanted else []
        if turn:
            turn.nagged.update(keys)
        rows = tuple(self._ledger.get(key) or turn.keys[key] for key in keys) if turn else ()
        return [*actions, Resolve(event.call, Unanswered(rows))]

    def _answer(self, row: InboxRow, words: bytes, msg_id: MsgId, now: Now) -> list[Action]:
        assert self.say is not None
        row = self._ledger.get(row.key) or row
        said = self.say(row, words, msg_id, now)
        return [*self._mark(row, AUTO, "", now, tell=False), *said]

    def _settle(self, gid: Gid) -> None:
        self._ending.discard(gid)
        self._timers.cancel(("turn-over", gid))

    def _over(self, gid: Gid, why: str, now: Now) -> list[Action]:
        self._settle(gid)
        turn = self._turns.pop(gid, None)
        actions: list[Action] = []
        for key, row in (turn.keys if turn else {}).items():
            current = self._ledger.get(key) or row
            actions += self._mark(current, ENDED, why or _WHY[_ENDED_BY_ITSELF], now, tell=True)
        return actions

    # --- its answer

    def replied(self, row: InboxRow, now: Now) -> list[Action]:
        """The agent answered by itself."""
        row = self._ledger.get(row.key) or row
        if turn := self._turns.get(row.gid):
            turn.keys.pop(row.key, None)
            if not turn.keys and not turn.typed:
                self._settle(row.gid)
                del self._turns[row.gid]
        if row.state is InboxState.INJECTING:
            self._early[row.key] = None
            if len(self._early) > MOST:
                del self._early[next(iter(self._early))]
        if row.state not in (InboxState.INJECTED, InboxState.UNCONFIRMED) or row.answer == ANSWERED:
            return []
        return self._mark(row, ANSWERED, "", now, tell=False)

    def _mark(self, row: InboxRow, answer: str, why: str, now: Now, *, tell: bool) -> list[Action]:
        is_owed = tell and self._notices.is_owed(row.from_host)
        is_new = tell or row.answer != ""  # else its word stays as it was told, to the letter
        marked = msgspec.structs.replace(
            row,
            answer=answer,
            detail=why if is_new else row.detail,
            at=now.wall if tell else row.at,
            notified=row.notified and not is_owed,
        )
        self._ledger.recent.put(row.key, marked)
        if tell:
            return [Record(marked, row), *self._notices.owe(marked, now)]
        if not marked.notified:
            self._notices.remember(marked)  # instead of what it was
        return [Record(marked, row, may_wait=True)]  # it is on the disk with the answer itself, which is behind it
