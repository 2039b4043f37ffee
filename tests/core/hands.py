"""Agents that take messages by a call of their own: hooks, a call left waiting, polls."""

from __future__ import annotations

from fleettrio.core import actions as do
from fleettrio.core import requests as ask
from fleettrio.core.calls import Offered
from fleettrio.core.harness import HandoutAsked, HandoutSeen
from fleettrio.ids import MsgId
from tests.core.builders import Host

ALL = frozenset({"idle", "turn", "now"})


class Hand:
    """The calls of one agent; `last` is what its host decided about the latest of them."""

    def __init__(self, host: Host, name: str = "worker") -> None:
        self.host, self.name = host, name
        self.last: list[do.Action] = []
        self._hooks: list[int] = []

    def hook(
        self,
        *,
        via: str = "hook",
        whens: frozenset[str] = ALL,
        room: int = 9_000,
        most: int = 20,
        wait: bool = False,
        session: str = "h",
    ) -> int:
        """A hook asks what there is for its agent; the number of its call."""
        call, gid = self.host.call(), self.host.gid(self.name)
        self._hooks.append(call)
        self.last = self.host.run(
            HandoutAsked(call=call, session=session, gid=gid, whens=whens, room=room, most=most, via=via, wait=wait)
        )
        return call

    def rewake(self) -> int:
        """A call waits to wake the agent."""
        return self.hook(via="rewake", wait=True, session="r")

    def got(self, call: int) -> list[MsgId] | None:
        """What a call took; None while it is open."""
        result = self.host.results.get(call)
        assert result is None or isinstance(result, Offered)
        return None if result is None else [msg_id for msg_id, _ in result.keys]

    def takes(self, **options: object) -> list[MsgId] | None:
        """What a hook takes at once."""
        return self.got(self.hook(**options))  # type: ignore[arg-type]

    def poll(self, session: str = "p", *, wait: bool = False) -> int:
        """The agent polls."""
        call = self.host.call()
        self.last = self.host.run(ask.PullAsked(call, session, self.host.gid(self.name), 50, wait))
        return call

    def seen(self, *ids: MsgId) -> list[do.Action]:
        """Its harness shows that these are in it; none named: all that its hooks took."""
        shown = ids or tuple(msg_id for call in self._hooks for msg_id in self.got(call) or ())
        return self.host.run(HandoutSeen(self.host.gid(self.name), shown))

    def ended(self, call: int | None, session: str = "p", *, gone: bool = False) -> list[do.Action]:
        """A call was broken off, or its client is gone."""
        return self.host.run(ask.CallEnded(call, session, gone))
