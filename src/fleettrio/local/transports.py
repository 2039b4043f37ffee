"""Which transport an entity is reached by."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from fleettrio.config import resolve_paths
from fleettrio.core.rows import Entity
from fleettrio.errors import ConfigError
from fleettrio.local.harness import load_harness
from fleettrio.local.port import Transport
from fleettrio.local.process import ProcessTransport
from fleettrio.local.pull import PullTransport
from fleettrio.local.tmux import TmuxTransport

__all__ = ("open_transport",)


def open_transport(entity: Entity, env: Mapping[str, str]) -> Transport:
    """The way into `entity`. `env` is what its processes get: `FLEETTRIO_HOME`, `FLEETTRIO_TOKEN`, `PATH`.

    Raises `ConfigError` for an unknown transport or harness and for a target that the transport cannot use.
    """
    match entity.transport:
        case "tmux":
            return TmuxTransport(entity.target, load_harness(entity.harness), env=env)
        case "process":
            output = resolve_paths(env).state_dir / "output" / f"{entity.gid}.log"
            return ProcessTransport(_argv(entity), env=env, cwd=entity.cwd, output=output)
        case "pull":
            return PullTransport()
    raise ConfigError([f"{entity.name}: unknown transport {entity.transport!r}"], hint="use one of tmux, process, pull")


def _argv(entity: Entity) -> list[str]:
    """The command as a shell would split it; no shell ever sees it."""
    try:
        return shlex.split(entity.target)
    except ValueError as error:
        raise ConfigError([f"{entity.name}: the command {entity.target!r} cannot be split: {error}"]) from error
