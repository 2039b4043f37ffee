"""Many hosts in one program, as others hear them: each beats under a key of its own, and tells its roster when asked.

`python -m fleettrio.bench.beats`, with a `Task` as JSON on standard input. It prints READY once all of them can be
asked, and beats until it is ended. Nobody lives on them: what is measured is who listens.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import time
from collections.abc import Sequence

import msgspec
import trio

from fleettrio.broker.amqp import open_border, open_session
from fleettrio.broker.port import CONTENT_TYPE, BrokerSession, BrokerSettings, RawDelivery, RawPublish
from fleettrio.core.compose import Identity, control, exchange_for, gateway_of, human_of, presence
from fleettrio.core.roster import BEAT_S
from fleettrio.core.topology import control_queue
from fleettrio.ids import FleetId, HostId, Now, Seconds, TraceId, WallMs
from fleettrio.wire.bodies import EntityPresence, GatewayPresence, RosterPart
from fleettrio.wire.envelope import Envelope, Kind, encode_envelope
from fleettrio.wire.gids import derive_gid, new_msg_id
from fleettrio.wire.headers import table_for
from fleettrio.wire.signing import Parsed, Signer, parse_delivery

__all__ = ("Task", "seed_of")

_LIMIT = 65_536
_PREFETCH = 16
_CAPACITY = 1_024
_REV = 1
_KINDS = tuple(map(str, (Kind.SEND, Kind.REPLY, Kind.PRESENCE, Kind.ROSTER_ASK, Kind.ROSTER)))


class Task(msgspec.Struct, kw_only=True):
    """Each of `hosts` has `entities` agents, which never change."""

    uri: str
    user: str
    password_file: str
    fleet_id: str
    hosts: list[str]
    entities: int


def seed_of(host: str) -> bytes:
    """The seed of its key: whoever gives out the fleet file knows it, too."""
    return hashlib.blake2b(host.encode(), digest_size=32).digest()


class _Host:
    def __init__(self, name: str, task: Task) -> None:
        fleet_id, host = FleetId(task.fleet_id), HostId(name)
        self.me = Identity(host, fleet_id, gateway_of(fleet_id, host), human_of(fleet_id, host), 1)
        self.signer = Signer(fleet_id, host, 1, seed_of(name))
        self.queue, self.bindings = control_queue(host)
        self._trace_id = TraceId(os.urandom(16).hex())
        self._epoch, self._seq = int(time.time() * 1000), 0
        salts = [f"{name}-{number}".encode()[-16:].ljust(16) for number in range(task.entities)]
        self._entities = tuple(
            EntityPresence(
                gid=derive_gid(fleet_id, host, salt),
                salt=salt,
                name=f"a{number}",
                takes="pull",
                status="idle",
                since=WallMs(self._epoch),
                rev=_REV,
            )
            for number, salt in enumerate(salts)
        )

    def beat(self, now: Now) -> tuple[Envelope, bytes]:
        self._seq += 1
        body = GatewayPresence(
            epoch=self._epoch,
            seq=self._seq,
            roster_rev=_REV,
            trust_rev=0,
            entities=len(self._entities),
            kinds=_KINDS,
            version="bench",
            clock=now.wall,
        )
        return presence(self.me, None, trace_id=self._trace_id, now=now), body.to_bytes()

    def roster(self, asker: HostId, now: Now) -> tuple[Envelope, bytes]:
        body = RosterPart(roster_rev=_REV, part=0, parts=1, entities=self._entities)
        return control(self.me, Kind.ROSTER, asker, trace_id=self._trace_id, now=now), body.to_bytes()


class _Speaker:
    def __init__(self, broker: BrokerSession) -> None:
        self._broker = broker
        self._ids = itertools.count(1)

    def say(self, host: _Host, said: tuple[Envelope, bytes], now: Now) -> None:
        envelope, body = said
        envelope = msgspec.structs.replace(envelope, msg_id=new_msg_id(now.wall, os.urandom(10)))
        header = encode_envelope(envelope)
        ((sig, proof),) = host.signer.sign([(header, body)])
        raw = RawPublish(
            id=next(self._ids),
            exchange=exchange_for(envelope.kind),
            routing_key=envelope.to,
            mandatory=False,
            persistent=False,
            expiration_ms=60_000,
            content_type=CONTENT_TYPE,
            headers=table_for(header, sig, proof, hints={"kind": str(envelope.kind)}),
            body=body,
        )
        self._broker.publish([raw])


def _now() -> Now:
    return Now(WallMs(int(time.time() * 1000)), Seconds(time.monotonic()))


async def _beat(hosts: Sequence[_Host], speaker: _Speaker) -> None:
    """Every host once in each beat, evenly spread."""
    started = trio.current_time()
    for number, host in enumerate(itertools.cycle(hosts)):
        await trio.sleep_until(started + number * BEAT_S / len(hosts))
        now = _now()
        speaker.say(host, host.beat(now), now)


async def _answer(
    hosts: dict[str, _Host],
    deliveries: trio.MemoryReceiveChannel[list[RawDelivery]],
    speaker: _Speaker,
    broker: BrokerSession,
) -> None:
    async for batch in deliveries:
        for raw in batch:
            parsed = parse_delivery(raw.headers, raw.body, body_limit=_LIMIT)
            if isinstance(parsed, Parsed) and parsed.envelope.kind == Kind.ROSTER_ASK:
                now, host = _now(), hosts[raw.queue]
                speaker.say(host, host.roster(parsed.envelope.host, now), now)
            broker.ack(raw.tag)


async def _drain(broker: BrokerSession) -> None:
    """What becomes of a beat is nobody's question."""
    async for _ in broker.verdicts:
        pass


async def run(task: Task) -> None:
    """Cancelled, the hosts fall silent. Raises `SessionLost`."""
    hosts = [_Host(name, task) for name in task.hosts]
    settings = BrokerSettings(uris=(task.uri,), user=task.user, password_file=task.password_file)
    send, deliveries = trio.open_memory_channel[list[RawDelivery]](_CAPACITY)
    async with open_border(), open_session(settings, 1) as broker, trio.open_nursery() as nursery:
        speaker = _Speaker(broker)
        nursery.start_soon(broker.run_until_lost)
        nursery.start_soon(_drain, broker)
        nursery.start_soon(_answer, {host.queue.name: host for host in hosts}, deliveries, speaker, broker)
        for host in hosts:
            await broker.declare((), (host.queue,), host.bindings)
            await broker.consume(host.queue.name, prefetch=_PREFETCH, deliveries=send)
        print("READY", flush=True)
        nursery.start_soon(_beat, hosts, speaker)


if __name__ == "__main__":
    trio.run(run, msgspec.json.decode(sys.stdin.buffer.read(), type=Task))
