"""Steps that many scenarios begin with, and envelopes that no honest host would send."""

from __future__ import annotations

import msgspec

from fleettrio.core import actions as do
from fleettrio.core.compose import control, message
from fleettrio.ids import Gid, Leaf, MsgId, WallMs
from fleettrio.wire.bodies import Failed, Fate, Injected, Outcome, Question, QuestionItem
from fleettrio.wire.envelope import Envelope, Kind
from fleettrio.wire.signing import Parsed
from tests.core.builders import TRACE, Host


def brief(alpha: Host, beta: Host, to: str = "worker@beta", **fields: object) -> tuple[MsgId, list[do.Action]]:
    """alpha sends and beta has it: the msgId and what beta decided."""
    msg_id = alpha.send(to, **fields)  # type: ignore[arg-type]
    (publish,) = alpha.taken()
    alpha.hand(publish)
    alpha.verdict(publish)
    return msg_id, beta.get(alpha.signed(publish))


def by_hand(sender: Host, name: str, to: Gid, body: bytes = b"by hand", msg_id: MsgId | None = None) -> Parsed:
    """A SEND that the sender's own core knows nothing of."""
    envelope = message(
        sender.gateway.settings.me,
        Kind.SEND,
        sender.entities[sender.gid(name)],
        to,
        msg_id=msg_id or sender.new_id(),
        trace_id=TRACE,
        expires_in_ms=3_600_000,
        now=sender.clock.now,
        depth=0,
    )
    return sender.sign(envelope, body)


def question(kind: Kind, sender: Host, to: Host, *asked: tuple[MsgId, Gid, Leaf]) -> Parsed:
    """QUERY or RECALL, signed by `sender`."""
    expires_at = WallMs(sender.clock.wall + 3_600_000)
    items = tuple(QuestionItem(msg_id=m, gid=g, leaf=leaf, expires_at=expires_at) for m, g, leaf in asked)
    envelope = control(sender.gateway.settings.me, kind, to.name, trace_id=TRACE, now=sender.clock.now)
    return _signed(sender, envelope, Question(items=items).to_bytes())


def outcome(sender: Host, to: Host, *fates: tuple[MsgId, Gid, Leaf, str]) -> Parsed:
    """OUTCOME, signed by `sender`."""
    body = Outcome(
        fates=tuple(
            Fate(msg_id=m, gid=g, leaf=leaf, state=state, at=WallMs(sender.clock.wall)) for m, g, leaf, state in fates
        )
    )
    envelope = control(
        sender.gateway.settings.me, Kind.OUTCOME, to.name, trace_id=TRACE, now=sender.clock.now, re=fates[0][0]
    )
    return _signed(sender, envelope, body.to_bytes())


def failed(sender: Host, to: Host, msg_id: MsgId, gid: Gid, leaf: Leaf, reason: str = "overflow") -> Parsed:
    """FAILED, signed by `sender`."""
    body = Failed(gid=gid, leaf=leaf, reason=reason, at=WallMs(sender.clock.wall))
    envelope = control(
        sender.gateway.settings.me, Kind.FAILED, to.name, trace_id=TRACE, now=sender.clock.now, re=msg_id
    )
    return _signed(sender, envelope, body.to_bytes())


def injected(sender: Host, to: Host, msg_id: MsgId, gid: Gid, leaf: Leaf) -> Parsed:
    """INJECTED, signed by `sender`."""
    body = Injected(gid=gid, leaf=leaf, state="confirmed", via="tmux", at=WallMs(sender.clock.wall))
    envelope = control(
        sender.gateway.settings.me, Kind.INJECTED, to.name, trace_id=TRACE, now=sender.clock.now, re=msg_id
    )
    return _signed(sender, envelope, body.to_bytes())


def _signed(sender: Host, envelope: Envelope, body: bytes) -> Parsed:
    return sender.sign(msgspec.structs.replace(envelope, msg_id=sender.new_id()), body)
