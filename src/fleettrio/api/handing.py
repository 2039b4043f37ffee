"""What an agent takes by a call of its own, for those who serve such calls: hooks, and the call that wakes it.

The core decides what may land and marks it before anything is shown (`core.handouts`); here it gets its frame. Polls of
an agent go by `pull` and `confirm` (`api.waiting`), as those of any client.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import trio

from fleettrio.api.results import or_given_up, result_within
from fleettrio.api.rpc import Connection
from fleettrio.core.calls import Offered, Unanswered
from fleettrio.core.harness import HandoutAsked, HandoutSeen, NagAsked
from fleettrio.core.picks import FRAME_ROOM
from fleettrio.core.rows import InboxRow, Key
from fleettrio.errors import StoreError
from fleettrio.ids import Gid, MsgId, short_id
from fleettrio.local.frame import reminder
from fleettrio.local.port import Text
from fleettrio.observe import get_logger
from fleettrio.perform import Performer
from fleettrio.tasks.framing import framed
from fleettrio.tasks.turns import turn_ended

__all__ = ("Handed", "Handing")

LOOK_S = 2.0
"""A call that does not wait for messages waits so long at most for a look at the work tree."""
_BETWEEN = 2
"""Characters between two messages."""

log = get_logger("handing")


class Handed(msgspec.Struct, frozen=True):
    """One message for one agent, marked as handed out: it is never given again."""

    msg_id: MsgId
    short: str
    nonce: str
    text: Text
    row: InboxRow


class Handing:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer

    async def take(
        self,
        gid: Gid,
        *,
        whens: frozenset[str],
        room: int,
        most: int,
        via: str,
        connection: Connection,
        patience: trio.CancelScope | None = None,
    ) -> list[Handed]:
        """What may land in the agent `gid` now: at most `most` messages in about `room` characters; nothing there, wait
        until `patience` ends. `via` is `hook`, or `rewake`: that one takes only while the agent is at rest.

        Each is committed `injecting` before this returns; what is not shown after all is `unconfirmed` (`seen`).
        Cancelled before that nothing was taken; cancelled later, what was taken is `unconfirmed` at once.
        """
        performer = self._performer
        call, wait = performer.calls.new(), patience is not None
        asked = HandoutAsked(
            call=call, session=connection.session, gid=gid, whens=whens, room=room, most=most, via=via, wait=wait
        )
        await performer.handle(asked)
        offered = await result_within(performer, call, connection, patience or trio.move_on_after(LOOK_S))
        if offered is None:
            return []
        assert isinstance(offered, Offered)
        async with or_given_up(performer, (call,), connection):
            return await self._framed(offered.keys, room)

    async def seen(self, gid: Gid, *, nonces: Iterable[str]) -> None:
        """The agent shows that it has what was delivered with these nonces. Evidence that comes late counts, too."""
        if ids := self._performer.nonces.delivered(nonces, gid):
            await self._performer.handle(HandoutSeen(gid, ids))

    async def turn_ended(self, gid: Gid, words: bytes | None, how: str) -> None:
        """The turn of this agent is over: `words` and `how` as in `core.events.TurnEnded`. First of all that its last
        hook says: what it took by calls is known to be in it by then, and what it takes next belongs to the next turn.
        """
        await self._performer.handle(turn_ended(gid, words, how, self._performer))

    async def nag(self, gid: Gid) -> str:
        """What to say to an agent whose turn is about to end without an answer that it owes; empty: let it end."""
        performer = self._performer
        call = performer.calls.new()
        await performer.handle(NagAsked(call, gid))
        unanswered = await performer.calls.result(call)
        assert isinstance(unanswered, Unanswered)
        return "\n".join(self._reminder(row) for row in unanswered.rows)

    def _reminder(self, row: InboxRow) -> str:
        short, sender = short_id(row.msg_id), self._performer.gateway.coordination.correspondent(row)
        return reminder(short, sender, self._performer.nonces.draw(row.msg_id, row.gid))

    async def _framed(self, keys: Sequence[Key], room: int) -> list[Handed]:
        """All of them, each cut to what those before it left."""
        handed: list[Handed] = []
        rows = [row for row in await self._performer.store.known(keys) if row is not None]
        for number, row in enumerate(rows, 1):
            try:
                text = await framed(row, self._performer, max(0, room - FRAME_ROOM * (len(rows) - number)))
            except StoreError as error:  # it stays marked: nobody sees it, and it is told as unconfirmed
                log.error("not handed out", msg_id=row.msg_id, reason=str(error))
                continue
            room -= len(text.framed) + _BETWEEN
            handed.append(Handed(row.msg_id, short_id(row.msg_id), text.nonce, text, row))
        return handed
