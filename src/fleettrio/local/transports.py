"""Which transport an entity is reached by."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from fleettrio.config import resolve_paths
from fleettrio.core.rows import Entity
from fleettrio.errors import ConfigError
from fleettrio.local.harness import load_harness
from fleettrio.local.port import Transport
from fleettrio.local.process import NOT_INHERITED, ProcessTransport
from fleettrio.local.pull import PullTransport
from fleettrio.local.tmux import TmuxTransport

__all__ = ("open_transport",)


def open_transport(entity: Entity, env: Mapping[str, str], token: str = "") -> Transport:
    """The way into `entity`. `env` is the daemon's; its processes get it with `token` as `FLEETTRIO_TOKEN`.

    Raises `ConfigError` for an unknown transport or harness and for a target that the transport cannot use.
    """
    match entity.transport:
        case "tmux":
            return TmuxTransport(entity.target, load_harness(entity.harness), env=env)
        case "process":
            output = resolve_paths(env).state_dir / "output" / f"{entity.gid}.log"
            # The daemon may itself have been started by an agent: who that was is nobody else's identity.
            own = {key: value for key, value in env.items() if key not in NOT_INHERITED}
            own |= {"FLEETTRIO_TOKEN": token} if token else {}
            return ProcessTransport(_argv(entity), env=own, cwd=entity.cwd, output=output)
        case "pull":
            return PullTransport()
    raise ConfigError([f"{entity.name}: unknown transport {entity.transport!r}"], hint="use one of tmux, process, pull")


def _argv(entity: Entity) -> list[str]:
    """The command as a shell would split it; no shell ever sees it."""
    try:
        return shlex.split(entity.target)
    except ValueError as error:
        raise ConfigError([f"{entity.name}: the command {entity.target!r} cannot be split: {error}"]) from error
