"""What may land now: every waiting message is judged anew whenever it could be delivered, never when it was sent.

Each judge knows one reason why a message does not land: it is over, its flow is held, somebody else has its claim, the
work tree must be looked at first. The first that holds or ends it is right; they are asked in the order in
which `parts` names them. A look is taken for what nobody holds or ends. No judge changes anything.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fleettrio.core.actions import Action
from fleettrio.core.rows import InboxRow, InboxState
from fleettrio.ids import Now, WallMs

__all__ = ("End", "Gate", "Hold", "Judge", "Look", "Taker", "Verdict")


class Hold(msgspec.Struct, frozen=True):
    """It waits on, and what came later from the same sender with the same `when` waits behind it.

    Whoever holds it pumps its lane again when that is over; with `until` that is done at that moment.
    """

    why: str
    passes: bool = False
    """What came later passes by."""
    until: WallMs | None = None


class End(msgspec.Struct, frozen=True):
    """It is over, undelivered. A message that was offered once ends `unconfirmed(offered)` instead."""

    state: InboxState
    reason: str = ""
    detail: str = ""


class Look(msgspec.Struct, frozen=True):
    """The work tree is to be looked at first: for a pull entity the look comes before the offer."""


Verdict = Hold | End | Look
Judge = Callable[[InboxRow, Now], Verdict | None]
Taker = Callable[[InboxRow, Now], tuple[Verdict | None, list[Action]]]
"""A judge that is asked last, at the moment at which the message would land, and may take something for it."""


def over(row: InboxRow, now: Now) -> Verdict | None:
    """Nothing is delivered after `expiresAt`, by this host's clock."""
    return End(InboxState.EXPIRED) if row.expires_at <= now.wall else None


class Gate:
    def __init__(self) -> None:
        self.judges: list[Judge] = [over]
        self.takers: list[Taker] = []

    def take(self, row: InboxRow, now: Now, *, is_looked_at: bool = False) -> tuple[Verdict | None, list[Action]]:
        """The last question, when its agent is ready for it: may ask for what only one can have.

        `is_looked_at`: the work tree has been looked at for it already.
        """
        verdict = self.judge(row, now)
        if verdict is not None and not (is_looked_at and isinstance(verdict, Look)):
            return verdict, []
        asked: list[Action] = []
        for taker in self.takers:
            verdict, actions = taker(row, now)
            asked += actions
            if verdict is not None:
                return verdict, asked
        return None, asked

    def judge(self, row: InboxRow, now: Now) -> Verdict | None:
        """Why `row` does not land now; None: it may."""
        look: Look | None = None
        for judge in self.judges:
            verdict = judge(row, now)
            if verdict is None:
                continue
            if not isinstance(verdict, Look):
                return verdict
            look = verdict
        return look
