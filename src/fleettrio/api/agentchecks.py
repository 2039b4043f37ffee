"""What `doctor` says of the agents here: which of them could read this host's key, and whether hooks call."""

from __future__ import annotations

from collections.abc import Mapping

from fleettrio.api.moments import ago
from fleettrio.api.schema import Check
from fleettrio.config import Config
from fleettrio.core.entity import Entity
from fleettrio.core.gateway import Gateway
from fleettrio.ids import WallMs

__all__ = ("agent_checks",)

_NAMED = 4
_HOOKED = frozenset({"claude", "codex", "opencode"})


def agent_checks(gateway: Gateway, config: Config, seen: Mapping[str, WallMs], now: WallMs) -> list[Check]:
    """`seen`: harness → when one of its hooks last called, since the daemon began."""
    here = [agent for agent in gateway.roster.entities.values() if agent.harness and agent.status != "away"]
    checks = [_hooks(harness, seen.get(harness), now) for harness in sorted({a.harness for a in here} & _HOOKED)]
    open_ones = [agent for agent in here if not _is_boxed(agent, gateway, config)]
    return [*checks, _sandbox(open_ones)] if here else checks


def _hooks(harness: str, at: WallMs | None, now: WallMs) -> Check:
    if at is None:
        detail = f"none has called since the daemon began; a test: fleettrio doctor --probe {harness}"
    else:
        detail = f"last called {ago(at, now)} ago"
    return Check(f"hooks {harness}", ok=True, detail=detail)


def _is_boxed(agent: Entity, gateway: Gateway, config: Config) -> bool:
    spawn = gateway.spawns.started(agent.gid)
    return spawn is not None and any(p.sandbox for p in config.profiles if p.name == spawn.profile)


def _sandbox(agents: list[Entity]) -> Check:
    """No fault: most people want it so. They should know."""
    if not agents:
        return Check("sandbox", ok=True, detail="every agent here runs in one")
    names = ", ".join(sorted(agent.name for agent in agents)[:_NAMED]) + ", …" * (len(agents) > _NAMED)
    detail = f"none around {names}: as your user they could read this host's key in the end (docs/spawn.md)"
    return Check("sandbox", ok=True, detail=detail)
