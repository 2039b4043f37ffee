"""What is done at once or not at all: ASK, ANSWER, and what one host asks of another (`orders`).

It goes out now, to a host that is heard and knows the kind, or its call fails. For this host itself it never touches
the broker.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fleettrio.core.actions import Action, Fail, RecordSent
from fleettrio.core.calls import SendCall
from fleettrio.core.compose import Identity, sent_row
from fleettrio.core.link import Link
from fleettrio.core.orderwords import order_words
from fleettrio.core.outbox import Outbox
from fleettrio.core.refusals import Refused
from fleettrio.core.roster import Roster
from fleettrio.core.rows import SentState
from fleettrio.core.waits import Waits
from fleettrio.errors import FAILED, NO_BROKER, MalformedEnvelope
from fleettrio.ids import Gid, HostId, Now
from fleettrio.wire.envelope import Envelope, encode_envelope
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Live",)


TakeHere = Callable[[VerifiedEnvelope, Now], list[Action]]
"""What this host does with it as its recipient. Raises `Refused`, `MalformedEnvelope` before anything is recorded."""


class Live:
    def __init__(self, me: Identity, roster: Roster, link: Link, outbox: Outbox, waits: Waits) -> None:
        self._me = me
        self._roster = roster
        self._link = link
        self._outbox = outbox
        self._waits = waits

    def refuse(self, call: int, kind: str, host: HostId, now: Now, *, is_live: bool = True) -> Fail | None:
        """The end of `call`, which asks for `kind` at `host`; None when it may go out. What is not `is_live` may go to
        a host that is not heard."""
        if host == self._me.host:
            return None
        if why := self._link.why_not():
            return Fail(call, NO_BROKER, why[0], why[1], "`fleettrio status` shows the broker")
        if is_live and not self._link.is_settling(now) and self._roster.is_silent(host, now.wall):
            text = f"{host} is not heard: {kind} is done at once or not at all"
            return Fail(call, NO_BROKER, "host-silent", text, f"`fleettrio ping {host}`")
        if text := self._roster.why_not_spoken(host, kind):
            return Fail(call, FAILED, "unknown-kind", text, f"update fleettrio on {host}")
        return None

    def give(
        self, call: int, envelope: Envelope, body: bytes, gid: Gid, host: HostId, here: TakeHere, now: Now
    ) -> list[Action]:
        """Send it to `gid` on `host`, or let this host take it; `call` ends with the verdict (`Accepted`)."""
        header = encode_envelope(envelope)
        row, key = sent_row(envelope, header, body, gid, host), (envelope.msg_id, gid)
        if words := order_words(envelope.kind, body, self._roster):
            row = msgspec.structs.replace(row, about=words)
        if host != self._me.host:
            self._outbox.accept(row, now)
            publish = self._link.publish_sent((row,), envelope, body)
            self._waits.add_send(SendCall(call, {key: row}))
            return [publish]
        row = msgspec.structs.replace(row, state=SentState.CONFIRMED)
        self._outbox.accept(row, now)
        try:
            acted = here(VerifiedEnvelope.of_neighbour(envelope, header, body), now)
        except (Refused, MalformedEnvelope) as refused:
            self._outbox.forget(key)
            reason = refused.reason if isinstance(refused, Refused) else "malformed"
            return [Fail(call, FAILED, reason, str(refused))]
        latest = self._outbox.get(key) or row
        self._waits.add_send(SendCall(call, {key: latest}))
        return [RecordSent(row), *acted]
