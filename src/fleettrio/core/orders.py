"""Control kinds that this host asks of another one, or of itself, for an entity here: SPAWN, STOP, PAUSE.

An order is sent and tracked like a message: it has a row in the outbox, addressed to the gateway of its host, and ends
in the word of that host (`ready`, `done`, `failed`). Orders are live, but for PAUSE.
"""

from __future__ import annotations

import msgspec

from fleettrio.core.actions import Action
from fleettrio.core.compose import Identity, gateway_of, message
from fleettrio.core.controls import Controls
from fleettrio.core.entity import Entity
from fleettrio.core.live import Live
from fleettrio.ids import HostId, MsgId, Now, TraceId
from fleettrio.wire.envelope import default_lifetime_ms

__all__ = ("Order", "Orders")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: `kind` of `host`, for `sender`. `fields`: further ones of the envelope (`spawn_id`)."""

    kind: str
    host: HostId
    sender: Entity
    body: bytes
    msg_id: MsgId
    trace_id: TraceId
    fields: tuple[tuple[str, object], ...] = ()
    is_live: bool = True
    """False: it waits at the broker for a host that sleeps."""


class Orders:
    def __init__(self, me: Identity, live: Live, controls: Controls) -> None:
        self._me = me
        self._live = live
        self._controls = controls

    def give(self, call: int, order: Order, now: Now) -> list[Action]:
        """Send it; `call` ends with the verdict (`Accepted`), as a send does. Its word comes to the outbox."""
        if refused := self._live.refuse(call, order.kind, order.host, now, is_live=order.is_live):
            return [refused]
        envelope = message(
            self._me,
            order.kind,
            order.sender,
            order.host,
            msg_id=order.msg_id,
            trace_id=order.trace_id,
            expires_in_ms=default_lifetime_ms(order.kind),
            now=now,
            **dict(order.fields),
        )
        gid = gateway_of(self._me.fleet_id, order.host)
        return self._live.give(call, envelope, order.body, gid, order.host, self._controls.take, now)
