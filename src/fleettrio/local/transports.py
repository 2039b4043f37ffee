"""Which ways an entity is reached by."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from fleettrio.config import resolve_paths
from fleettrio.core.entity import Entity
from fleettrio.errors import ConfigError
from fleettrio.local.codexqueue import CodexQueue
from fleettrio.local.dialects import dialect_of
from fleettrio.local.echoes import Echoes
from fleettrio.local.harness import load_harness
from fleettrio.local.herdr import HerdrTransport
from fleettrio.local.http import HttpTransport
from fleettrio.local.ladder import Ladder
from fleettrio.local.noway import NoWay, pull
from fleettrio.local.plugins import open_plugin
from fleettrio.local.port import Transport
from fleettrio.local.process import NOT_INHERITED, ProcessTransport
from fleettrio.local.resident import Resident
from fleettrio.local.stream import StreamTransport
from fleettrio.local.tmux import TmuxTransport
from fleettrio.observe import get_logger

__all__ = ("BUILT_IN", "BY_NAME", "end_strays", "open_transport", "open_way", "place_of", "ways_of")

BUILT_IN = ("pull", "tmux", "herdr", "process", "stream", "http", "codex-queue")
"""Names that no other package's transport can take."""
BY_NAME = ("http", "codex-queue")
"""Those of them that a person chooses by name, with a target."""
_APART = ("pull", "process", "stream", *BY_NAME)

log = get_logger("transports")


def place_of(entity: Entity) -> tuple[object, ...]:
    """All that its ways are made from: while this stays the same, so do they."""
    api = entity.api if entity.harness == "opencode" else ""
    session = entity.session if api or entity.transport == "herdr" else ""
    return (entity.transport, entity.target, entity.harness, entity.pid, entity.tty, entity.program, api, session)


def open_way(entity: Entity, env: Mapping[str, str], token: str = "", *, echoes: Echoes | None = None) -> Transport:
    """As `open_transport`; where there is no way, one that is never ready and says why."""
    try:
        return open_transport(entity, env, token, echoes=echoes)
    except ConfigError as error:
        return NoWay(entity.transport, str(error))


def open_transport(
    entity: Entity, env: Mapping[str, str], token: str = "", *, echoes: Echoes | None = None
) -> Transport:
    """The ways into `entity`, as one. `env` is the daemon's; its processes get it with `token` as `FLEETTRIO_TOKEN`.
    `echoes`: what its prompt hook hears is evidence of a turn.

    Raises `ConfigError` for an unknown transport or harness and for a target that the transport cannot use.
    """
    ways = [*_own_api(entity, env, echoes), _place(entity, env, token, echoes)]
    return ways[0] if len(ways) == 1 else Ladder(ways)


def ways_of(entity: Entity) -> tuple[str, ...]:
    """Names of the ways into it, best first, as `open_transport` would try them."""
    return ("http", entity.transport) if _has_own_api(entity) else (entity.transport,)


def _has_own_api(entity: Entity) -> bool:
    """Whether it lives somewhere else and is reached by its program's own server as well."""
    is_served = entity.harness == "opencode" and bool(entity.api and entity.session)
    return is_served and entity.transport not in _APART


def _own_api(entity: Entity, env: Mapping[str, str], echoes: Echoes | None) -> list[Transport]:
    if not _has_own_api(entity):
        return []
    try:
        return [HttpTransport(entity.api, entity.session, env=env, echoes=echoes)]
    except ConfigError as error:
        log.warning("its own server is no way to it", agent=entity.name, problem=str(error))
        return []


def _place(entity: Entity, env: Mapping[str, str], token: str, echoes: Echoes | None) -> Transport:
    harness = load_harness(entity.harness)
    match entity.transport:
        case "tmux":
            born = entity.pid or None
            return TmuxTransport(entity.target, harness, env=env, born=born, program=entity.program, echoes=echoes)
        case "herdr":
            return HerdrTransport(entity.target, harness, session=entity.session, echoes=echoes)
        case "process":
            output = resolve_paths(env).state_dir / "output" / f"{entity.gid}.log"
            return ProcessTransport(_argv(entity), env=_own_env(env, token), cwd=entity.cwd, output=output)
        case "stream":
            return StreamTransport(
                _argv(entity),
                env=_own_env(env, token),
                cwd=entity.cwd,
                folder=_stream_folder(entity, env),
                dialect=dialect_of(harness.stream),
            )
        case "http":
            return HttpTransport(entity.target, env=env, echoes=echoes)
        case "codex-queue":
            return CodexQueue(entity.target, env=_own_env(env), echoes=echoes)
        case "pull" if entity.target:  # in a pane: a line that says what waits is all that is ever typed
            return TmuxTransport(entity.target, harness, env=env, born=entity.pid or None, echoes=echoes)
        case "pull":
            return pull()
    return open_plugin(entity.transport, entity.target, harness, env)


def _stream_folder(entity: Entity, env: Mapping[str, str]) -> Path:
    """Another command is another program: what is left of the one before is none of its business."""
    command = hashlib.sha256(f"{entity.harness}\0{entity.cwd}\0{entity.target}".encode()).hexdigest()
    return resolve_paths(env).state_dir / "streams" / f"{entity.gid}-{command[:8]}"


async def end_strays(entities: Iterable[Entity], env: Mapping[str, str]) -> None:
    """End the programs that stay of agents that are none of `entities`: the last daemon died before it had.

    Bounded for each. Cancelled, some may still run.
    """
    folders, kept = resolve_paths(env).state_dir / "streams", {_stream_folder(entity, env) for entity in entities}
    for folder in sorted(set(folders.glob("*")) - kept):
        log.warning("program of an agent that was let go", folder=folder.name)
        stray = Resident((), env={}, cwd="", folder=folder)
        await stray.end()
        stray.forget()


def _own_env(env: Mapping[str, str], token: str = "") -> dict[str, str]:
    """The daemon may itself have been started by an agent: who that was is nobody else's identity."""
    own = {key: value for key, value in env.items() if key not in NOT_INHERITED}
    return own | ({"FLEETTRIO_TOKEN": token} if token else {})


def _argv(entity: Entity) -> list[str]:
    """The command as a shell would split it; no shell ever sees it."""
    try:
        return shlex.split(entity.target)
    except ValueError as error:
        raise ConfigError([f"{entity.name}: the command {entity.target!r} cannot be split: {error}"]) from error
