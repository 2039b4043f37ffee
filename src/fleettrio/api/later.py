"""Messages that are due later, as their sender sees and ends them: nothing but a note of this host, until its time."""

from __future__ import annotations

from collections.abc import Sequence

from fleettrio.api.moments import dated
from fleettrio.api.schema import MessageView
from fleettrio.core.dues import SEND, Dues
from fleettrio.core.requests import DueCancelled
from fleettrio.core.roster import Target
from fleettrio.core.rows import Due
from fleettrio.ids import Gid, short_id
from fleettrio.perform import Performer
from fleettrio.store.queries import SHORTEST_PART

__all__ = ("Later",)


class Later:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._gateway = performer.gateway

    def of(self, gid: Gid) -> list[Due]:
        """What `gid` has asked for and is not sent yet, the next one first; the person sees all of this host's."""
        human = self._gateway.settings.me.human
        mine = [due for due in self._gateway.dues if due.what == SEND and gid in (due.sender, human)]
        return sorted(mine, key=lambda due: due.at)

    def find(self, message_id: str, gid: Gid) -> Due | None:
        """The one that a full id, or an ending of at least 4, names; None when there is none, or more than one."""
        if len(message_id) < SHORTEST_PART:
            return None
        found = [due for due in self.of(gid) if due.id.endswith(message_id)]
        return found[0] if len(found) == 1 else None

    def latest(self, gid: Gid) -> Due | None:
        """The one that `gid` itself asked for last."""
        mine = (due for due in self._gateway.dues if due.what == SEND and due.sender == gid)
        return max(mine, key=lambda due: (due.made_at, due.id), default=None)

    async def cancel(self, due: Due) -> list[MessageView]:
        """Call it off. As it was, when its time has come meanwhile."""
        call = self._performer.calls.new()
        await self._performer.handle(DueCancelled(call, due.id))
        called_off = await self._performer.calls.result(call)
        return self.views([due], is_off=called_off is not None)

    def views(self, dues: Sequence[Due], *, is_off: bool = False) -> list[MessageView]:
        return [view for due in dues for view in self._of_one(due, is_off=is_off)]

    def _of_one(self, due: Due, *, is_off: bool) -> list[MessageView]:
        roster, me = self._gateway.roster, self._gateway.settings.me
        at = dated(due.at, self._performer.clock.now().wall)
        views = []
        for msg_id, address in Dues.recipients(due):
            target = roster.resolve(address)
            who = f"{target.name}@{target.host}" if isinstance(target, Target) else address
            sentence = f"goes out to {who} at {at}; `fleettrio cancel {short_id(msg_id)}` calls it off"
            if is_off:
                sentence = f"called off: it was not sent to {who}, and will not be"
            views.append(
                MessageView(
                    msg_id=msg_id,
                    short=short_id(msg_id),
                    kind="SEND",
                    direction="out",
                    sender=roster.address(due.sender, me.host),
                    recipient=who,
                    gid=target.gid if isinstance(target, Target) else "",
                    state="recalled" if is_off else "scheduled",
                    reason="",
                    detail="",
                    sentence=sentence,
                    trace_id="",
                    ts=due.made_at,
                    expires_at=0,
                    at=due.at,
                    via="",
                    size=0,
                    re=None,
                    answered_by=None,
                    exit_code=0,
                )
            )
        return views
