"""How far a flow has gone without a person: the depth of a message, and the trace that it goes on in.

    a person's message: 0 ──put into an agent──► what the agent sends: 1 ──put into the next──► 2 …

Rules:
1. What a person sends is 0 deep. What an agent sends is one deeper than the deepest that was put into it in its current
   or its previous turn, and goes on in the trace of that one.
2. A turn begins with what is put into an idle agent, with a pull that brings something, or when an idle agent is seen
   at work; it is over when the agent is seen idle.
3. A person's message begins the count anew, and so does a prompt that a person types: nothing from before it counts
   any more.
4. What was told to be sent later has the depth of the turn in which that was told.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fleettrio.core.compose import Identity, human_of
from fleettrio.core.rows import InboxRow
from fleettrio.ids import Gid, HostId, TraceId

__all__ = ("Depths", "Step")


class Step(msgspec.Struct, frozen=True):
    """How deep something is; `trace_id` None: it began here."""

    depth: int
    trace_id: TraceId | None = None


NOTHING = Step(0)


class _Turns(msgspec.Struct):
    """The deepest that was put into an agent in its previous and its current turn."""

    before: Step = NOTHING
    current: Step = NOTHING
    is_over: bool = False

    @property
    def deepest(self) -> Step:
        return max(self.current, self.before, key=lambda step: step.depth)

    def begin(self) -> None:
        self.before, self.current, self.is_over = self.current, NOTHING, False


class Depths:
    def __init__(self, me: Identity) -> None:
        self._me = me
        self._turns: dict[Gid, _Turns] = {}

    def start(self, rows: Iterable[InboxRow]) -> None:
        """What was put into the agents last, as the store has it: oldest first, each a turn of its own."""
        for row in rows:
            self.landed(row)

    def is_person(self, gid: Gid, host: HostId) -> bool:
        """True for the person at `host`."""
        return gid == human_of(self._me.fleet_id, host)

    def of(self, sender: Gid) -> Step:
        """The depth of what `sender`, who is of this host, says now."""
        if sender == self._me.human:
            return NOTHING
        deepest = self._turns[sender].deepest if sender in self._turns else NOTHING
        return Step(deepest.depth + 1, deepest.trace_id)

    def answering(self, sender: Gid, original: InboxRow) -> int:
        """The depth of an answer of `sender` to `original`."""
        return 0 if sender == self._me.human else max(self.of(sender).depth, original.depth + 1)

    def landed(self, *rows: InboxRow) -> None:
        """These were put into their agent, or handed to their client, together."""
        for number, row in enumerate(rows):
            turns = self._turns.setdefault(row.gid, _Turns())
            if row.depth == 0:  # a person's, or let go on by one
                self._turns[row.gid] = _Turns(current=Step(0, row.trace_id))
                continue
            if turns.is_over or (number == 0 and row.when != "now" and turns.current is not NOTHING):
                turns.begin()
            turns.current = max(Step(row.depth, row.trace_id), turns.current, key=lambda step: step.depth)

    def typed(self, gid: Gid) -> None:
        """A person typed a prompt into this agent: its turn begins with that."""
        self._turns[gid] = _Turns()

    def begun(self, gid: Gid, depth: int) -> None:
        """An agent was started because of something so deep: that is its first turn."""
        self._turns[gid] = _Turns(current=Step(depth))

    def seen(self, gid: Gid, status: str) -> None:
        """The state of an agent changed."""
        turns = self._turns.get(gid)
        if turns is None:
            return
        if status == "idle":
            turns.is_over = True
        elif status == "working" and turns.is_over:
            turns.begin()

    def forget(self, gid: Gid) -> None:
        self._turns.pop(gid, None)
