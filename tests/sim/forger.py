"""Whoever may write to the broker and is no friend: bytes without a key, other people's bytes in other places, and a
host of the fleet that speaks of what is not its business.

Everything is put straight into the broker; nothing of it may ever reach an agent or change what a sender reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from fleettrio._accel import leaf_of
from fleettrio.broker.model.message import Message
from fleettrio.core.compose import Identity, control, human_of
from fleettrio.core.topology import CONTROL
from fleettrio.ids import FleetId, Gid, HostId, Leaf, MsgId, Now, Seconds, TraceId, WallMs
from fleettrio.wire.bodies import Fate, Outcome, Question, QuestionItem
from fleettrio.wire.envelope import Envelope, Kind, decode_envelope, encode_envelope
from fleettrio.wire.gids import GATEWAY_SALT, derive_gid, new_msg_id
from fleettrio.wire.signing import Signer
from tests.core.builders import TRACE, seed_of
from tests.sim.history import FORGED

if TYPE_CHECKING:
    from tests.sim.broker import Broker
    from tests.sim.world import World

__all__ = ("TRAITOR", "Forger", "Inbox")

TRAITOR = HostId("mallory")
"""A host of the fleet, with a good key."""
LIES = ("injected", "drained", "recalled", "expired", "failed")


@dataclasses.dataclass(frozen=True, slots=True)
class Inbox:
    """Where messages go: its routing key, and by which gid its host speaks of it."""

    key: str
    gid: Gid
    host: str
    is_push: bool = True


class Forger:
    def __init__(self, world: World, broker: Broker, fleet: FleetId, inboxes: Sequence[Inbox]) -> None:
        self._world, self._broker, self._fleet, self._inboxes = world, broker, fleet, inboxes
        self._me = Identity(
            TRAITOR, fleet, derive_gid(fleet, TRAITOR, GATEWAY_SALT), human_of(fleet, TRAITOR), key_gen=1
        )
        self._signer = Signer(fleet, TRAITOR, 1, seed_of(TRAITOR))
        self._numbers = 0

    def saw(self, message: Message) -> None:
        """A message comes to the broker; whatever is done to it is done before it is routed, or a little later."""
        faults, rng = self._world.faults, self._world.rng
        if faults.strikes("forgery"):
            self._world.history.is_anything_forged = True
            forged = rng.choice((self._unsigned, self._altered, self._misplaced, self._copied, self._by_a_stranger))
            self._put(forged(message))
        if faults.strikes("treason"):
            lie = rng.choice((self._lie, self._lie, self._call_back))(message)
            self._world.after(rng.choice((0.0, 0.05, 3.0)), lambda: self._later(lie))

    async def _later(self, message: Message) -> None:
        self._put(message)

    def _put(self, message: Message) -> None:
        self._broker.put(message)

    # --- bytes without a key

    def _unsigned(self, message: Message) -> Message:
        """The very header and body, ahead of the genuine ones, under a signature that nobody made."""
        return self._with(message, sig=self._world.rng.randbytes(64))

    def _altered(self, message: Message) -> Message:
        return msgspec.structs.replace(message, body=FORGED)

    def _by_a_stranger(self, message: Message) -> Message:
        host = decode_envelope(_bytes(message, "fleet")).host
        ((sig, _),) = Signer(self._fleet, host, 1, seed_of("stranger")).sign([(_bytes(message, "fleet"), FORGED)])
        return msgspec.structs.replace(self._with(message, sig=sig), body=FORGED)

    # --- good bytes where they do not belong

    def _misplaced(self, message: Message) -> Message:
        return msgspec.structs.replace(message, routing_key=self._world.rng.choice(self._inboxes).key)

    def _copied(self, message: Message) -> Message:
        copy = self._world.rng.choice(self._inboxes).key
        return msgspec.structs.replace(message, headers={**message.headers, "CC": [copy]})

    # --- a good key that speaks of other hosts' messages

    def _lie(self, message: Message) -> Message:
        """What became of a message, told by a host that it did not go to."""
        envelope, leaf = self._read(message)
        fate = Fate(
            msg_id=envelope.msg_id,
            gid=self._recipient(envelope).gid,
            leaf=leaf,
            state=self._world.rng.choice(LIES),
            at=WallMs(self._now.wall),
        )
        return self._say(Kind.OUTCOME, envelope.host, envelope.msg_id, Outcome(fates=(fate,)).to_bytes())

    def _call_back(self, message: Message) -> Message:
        """A message called back by a host that did not send it."""
        envelope, leaf = self._read(message)
        to = self._recipient(envelope)
        item = QuestionItem(msg_id=envelope.msg_id, gid=to.gid, leaf=leaf, expires_at=envelope.expires_at)
        return self._say(Kind.RECALL, HostId(to.host), None, Question(items=(item,)).to_bytes())

    def _recipient(self, envelope: Envelope) -> Inbox:
        """Whoever it is for; of a broadcast, one member."""
        found = [inbox for inbox in self._inboxes if inbox.key == envelope.to]
        return self._world.rng.choice(found or [inbox for inbox in self._inboxes if inbox.is_push])

    def _say(self, kind: Kind, to: HostId, re: MsgId | None, body: bytes) -> Message:
        envelope = control(self._me, kind, to, trace_id=TraceId(TRACE), now=self._now, re=re)
        self._numbers += 1
        msg_id = new_msg_id(self._now.wall, b"traitor" + self._numbers.to_bytes(3, "big"))
        header = encode_envelope(msgspec.structs.replace(envelope, msg_id=msg_id))
        ((sig, _),) = self._signer.sign([(header, body)])
        return Message(exchange=CONTROL, routing_key=to, body=body, headers={"fleet": header, "sig": sig})

    @property
    def _now(self) -> Now:
        return Now(WallMs(self._world.wall_ms), Seconds(self._world.now))

    @staticmethod
    def _read(message: Message) -> tuple[Envelope, Leaf]:
        header = _bytes(message, "fleet")
        return decode_envelope(header), Leaf(leaf_of(header, message.body))

    @staticmethod
    def _with(message: Message, **headers: bytes) -> Message:
        return msgspec.structs.replace(message, headers={**message.headers, **headers})


def _bytes(message: Message, name: str) -> bytes:
    value = message.headers[name]
    assert isinstance(value, bytes)
    return value
