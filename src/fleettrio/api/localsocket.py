"""The local socket with all its methods: the whole of what a client can ask of this daemon."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import trio

from fleettrio.api.agents import Agents
from fleettrio.api.asks import Asks
from fleettrio.api.callers import CallerRules, TokenUse, hash_token
from fleettrio.api.claims import Claims
from fleettrio.api.deadletters import DeadLetters
from fleettrio.api.digests import Digests
from fleettrio.api.health import Health
from fleettrio.api.hooks.evidence import Evidence
from fleettrio.api.hooks.hooks import Hooks
from fleettrio.api.hosts import Hosts
from fleettrio.api.mcp.door import Door, House
from fleettrio.api.messages import Messages
from fleettrio.api.orphans import Orphans
from fleettrio.api.pauses import Pauses
from fleettrio.api.people import People
from fleettrio.api.processes import read_process
from fleettrio.api.rpc import serve
from fleettrio.api.sessions import Sessions
from fleettrio.api.spawns import Spawns
from fleettrio.api.traces import Traces
from fleettrio.api.trust import Trust
from fleettrio.config import Config
from fleettrio.core.entity import Entity
from fleettrio.core.gateway import Gateway
from fleettrio.ids import Gid
from fleettrio.launch.launcher import Launcher
from fleettrio.local.worker_token import worker_token
from fleettrio.perform import Performer
from fleettrio.tasks.notify import Notifier

__all__ = ("run_local_socket",)


async def run_local_socket(
    config: Config,
    performer: Performer,
    trust: Trust,
    launcher: Launcher,
    notifier: Notifier,
    evidence: Evidence,
    stop: Callable[[], None],
    operator_token: str,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve this host's clients until cancelled; `stop` ends the daemon. Starts, and fails, as `rpc.serve` does."""
    uses = TokenUse()
    messages, sessions, people = Messages(performer), Sessions(performer), People(performer, notifier)
    hooks = Hooks(performer, sessions, evidence, Digests(performer))
    parts = (
        messages,
        Agents(performer, uses),
        Health(performer, config, performer.clock.now().wall, trust, stop, notifier, hooks.last_seen),
        Hosts(performer),
        Traces(performer),
        Claims(performer),
        Asks(performer, messages),
        Spawns(performer),
        Orphans(performer, launcher),
        DeadLetters(performer),
        Pauses(performer),
        people,
        hooks,
    )
    methods = {name: method for part in parts for name, method in part.methods().items()}
    gone = messages.waiting.gone
    await serve(
        config.paths.socket,
        methods,
        _callers(performer.gateway, uses, operator_token),
        together=messages.sending.together(),
        streams={"mcp": Door(House(methods, performer, sessions, gone)).serve},
        on_close=gone,
        on_call=people.called,
        task_status=task_status,
    )


def _callers(gateway: Gateway, uses: TokenUse, operator_token: str) -> CallerRules:
    """Who may be calling: the agents of this host, those that are only being started included, and its person."""
    roster, started = gateway.roster, gateway.spawns.started

    def entities() -> tuple[Entity, ...]:
        return (*roster.entities.values(), *roster.starting.values())

    def extra_tokens() -> Mapping[bytes, Gid]:
        return {
            hash_token(token): entity.gid
            for entity in entities()
            if (token := worker_token(operator_token, entity, started=started(entity.gid) is not None))
        }

    return CallerRules(
        uid=os.getuid(),
        human=gateway.settings.me.human,
        entities=entities,
        read=read_process,
        operator_hash=hash_token(operator_token) if operator_token else b"",
        extra_tokens=extra_tokens,
        uses=uses,
    )
