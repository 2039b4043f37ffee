"""alpha, which was granted a profile of beta, and the steps of a start and an end."""

from __future__ import annotations

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.compose import gateway_of, message
from fleettrio.core.spawned import Spawnable
from fleettrio.ids import Gid, MsgId, SpawnId
from fleettrio.wire.bodies import SpawnBody, StopBody
from fleettrio.wire.envelope import Kind
from fleettrio.wire.gids import derive_gid
from fleettrio.wire.signing import Parsed
from tests.core.builders import FLEET, TRACE, Host, World, fleet_of, salt_of

PROFILES = (
    Spawnable(name="coder", most=2, transport="tmux", role="worker", harness="claude", groups=("crew",)),
    Spawnable(name="other", most=1, transport="process", role="worker"),
)


def hosts(*grants: str, standalone: bool = False) -> tuple[World, Host, Host]:
    """alpha and beta know each other; beta has the profiles, alpha was granted `grants` (by default `spawn:coder`)."""
    world = World("alpha", "beta", profiles=PROFILES, standalone=standalone)
    fleet = fleet_of(("alpha", "beta"), grants={"alpha": grants or ("spawn:coder",)})
    for host in world.hosts:
        host.fleet = fleet
        host.verifier.set_fleet(fleet)
        host.start()
    if not standalone:
        world.open()
    alpha, beta = world.hosts
    alpha.taken()
    beta.taken()
    return world, alpha, beta


def spawn(
    host: Host, to: str = "beta", profile: str = "coder", sender: str = "human", new: str = "new", **fields: object
) -> MsgId:
    """Ask for an agent whose salt is that of `new`. What comes of it is in `results` and `outbox`."""
    asked: dict[str, object] = {"brief": None, **fields}
    msg_id = host.new_id()
    host.last = host.run(
        ask.SpawnAsked(
            call=host.call(),
            sender=host.gid(sender),
            host=to,  # type: ignore[arg-type]
            profile=profile,
            salt=salt_of(new),
            msg_id=msg_id,
            trace_id=TRACE,
            brief_id=host.new_id(),
            **asked,  # type: ignore[arg-type]
        )
    )
    return msg_id


def stop(host: Host, gid: Gid, to: str = "beta", sender: str = "human") -> MsgId:
    msg_id = host.new_id()
    host.last = host.run(
        ask.StopAsked(
            call=host.call(),
            sender=host.gid(sender),
            host=to,  # type: ignore[arg-type]
            gid=gid,
            msg_id=msg_id,
            trace_id=TRACE,
        )
    )
    return msg_id


def spawned(host: Host, new: str = "new") -> Gid:
    return derive_gid(FLEET, host.name, salt_of(new))


def launched(host: Host, new: str = "new") -> list[do.Action]:
    return host.run(ev.Launched(spawn_id=spawned(host, new), target="x:%7", cwd="/src", pid=77, started=5))


def ready(host: Host, new: str = "new", *, bound: bool = True) -> list[do.Action]:
    """It runs, is ready, and its inbox is open."""
    launched(host, new)
    actions = host.run(ev.SpawnReady(spawned(host, new)))
    return [*actions, *(host.run(ev.InboxBound(spawned(host, new))) if bound else [])]


def spawn_by_hand(
    sender: Host,
    to: Host,
    *,
    profile: str = "coder",
    new: str = "new",
    spawn_id: Gid | None = None,
    msg_id: MsgId | None = None,
    depth: int = 0,
    **body: object,
) -> Parsed:
    """A SPAWN that its sender's own core knows nothing of."""
    made = SpawnBody(profile=profile, salt=salt_of(new), **body)  # type: ignore[arg-type]
    return _by_hand(sender, to, Kind.SPAWN, made.to_bytes(), spawn_id or spawned(to, new), msg_id, depth=depth)


def stop_by_hand(sender: Host, to: Host, gid: Gid, spawn_id: Gid | None = None) -> Parsed:
    return _by_hand(sender, to, Kind.STOP, StopBody(gid=gid).to_bytes(), spawn_id or gid, None)


def _by_hand(
    sender: Host, to: Host, kind: Kind, body: bytes, spawn_id: Gid, msg_id: MsgId | None, **fields: object
) -> Parsed:
    envelope = message(
        sender.gateway.settings.me,
        kind,
        sender.entities[sender.gid("human")],
        to.name,
        msg_id=msg_id or sender.new_id(),
        trace_id=TRACE,
        expires_in_ms=600_000,
        now=sender.clock.now,
        spawn_id=SpawnId(spawn_id),
        **fields,
    )
    return sender.sign(envelope, body)


def control_state(host: Host, msg_id: MsgId) -> str:
    """What `host` has of a request to it."""
    row = host.ledger[msg_id, gateway_of(FLEET, host.name)]
    return f"{row.state}({row.reason})" if row.reason else str(row.state)
