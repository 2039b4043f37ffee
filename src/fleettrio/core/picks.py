"""What a call may take of the messages that wait: each is judged at this very moment, in their order.

Rules:
1. Behind a message that is held, what came later from the same sender with the same `when` waits, too.
2. What is over ends on the way.
3. What the work tree is to be looked at for first is named, and not taken. Once a look is at hand, what came in
   meanwhile unseen holds like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from fleettrio.core.actions import Action
from fleettrio.core.calls import HandoutCall, PullCall
from fleettrio.core.gate import End, Gate, Hold, Look
from fleettrio.core.ledger import Ledger
from fleettrio.core.looks import Looks
from fleettrio.core.rows import InboxRow
from fleettrio.core.waits import Waits
from fleettrio.ids import Gid, Now

__all__ = ("FRAME_ROOM", "Picked", "Picks")

FRAME_ROOM = 500
"""Characters that the frame around a message takes, about."""


class Picked(msgspec.Struct):
    """What may be taken, what is to be looked at first, and the ends on the way."""

    rows: list[InboxRow]
    unseen: list[InboxRow]
    actions: list[Action]


class Picks:
    def __init__(self, ledger: Ledger, gate: Gate, looks: Looks, waits: Waits) -> None:
        self._ledger = ledger
        self._gate = gate
        self._looks = looks
        self._waits = waits

    def among(
        self,
        waiting: Iterable[InboxRow],
        held: Callable[[InboxRow, Hold], None],
        now: Now,
        *,
        most: int | None = None,
        room: int | None = None,
    ) -> Picked:
        """At most `most` of `waiting`, in about `room` characters, but for the first. `held` is told what holds one."""
        picked, behind = Picked([], [], []), set[tuple[Gid, str]]()
        for row in waiting:
            if len(picked.rows) + len(picked.unseen) == most:
                break
            if (row.sender, row.when) in behind:
                continue
            if room is not None and picked.rows and row.size + FRAME_ROOM > room:
                break
            verdict, taken = self._gate.take(row, now)
            picked.actions += taken
            match verdict:
                case End(state, reason, detail):
                    picked.actions += self._ledger.finish_undelivered(row, now, state, reason, detail)
                case Hold() as hold:
                    held(row, hold)
                    if not hold.passes:
                        behind.add((row.sender, row.when))
                case Look():
                    picked.unseen.append(row)
                    if self._looks.is_at_hand:
                        behind.add((row.sender, row.when))
                case None:
                    picked.rows.append(row)
                    room = None if room is None else room - row.size - FRAME_ROOM
        return picked

    def not_waiting(self, call: PullCall | HandoutCall) -> list[Action]:
        """End a call that does not wait and has nothing, once nothing is being looked at for it."""
        is_over = not call.wait and self._waits.is_open(call.call) and not self._looks.is_under_way(call.gid)
        return self._waits.nothing_there(call.call) if is_over else []
