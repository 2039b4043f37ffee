"""Agents of a host, agents that a host starts, and what is asked of a host: their states, and what moves them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import msgspec

from fleettrio.core import events as ev
from fleettrio.core.compose import gateway_of
from fleettrio.core.rows import InboxState
from fleettrio.ids import Leaf, MsgId
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Parsed
from tests.core.builders import FLEET, Host, World
from tests.core.messages import brief, question
from tests.core.spawning import hosts, launched, ready, spawn_by_hand, spawned, stop_by_hand
from tests.core.tables.walk import Table

__all__ = ("AGENT", "REQUEST", "SPAWN")

Case = tuple[World, Host, Host]
"""alpha, which was granted much, and beta, which has the agents."""


def _case(*steps: Callable[[Case], object]) -> Callable[[], Case]:
    def reach() -> Case:
        case = hosts("spawn:coder", "stop")
        for step in steps:
            step(case)
            case[0].settle()
        return case

    return reach


def _restarted(case: Case) -> None:
    case[2].start()
    case[2].open()


# --- an agent: beta's worker


def _agent_state(case: Case) -> str:
    beta = case[2]
    entity = beta.gateway.roster.entities.get(beta.gid("worker"))
    return entity.status if entity else "gone"


def _seen(status: str, case: Case) -> None:
    case[2].run(ev.AgentSeen(case[2].gid("worker"), status))


def _not_there(case: Case) -> None:
    case[2].run(ev.AgentNotReady(case[2].gid("worker"), MsgId(""), "no pane", "away", gone=True))


def _attached(case: Case) -> None:
    beta = case[2]
    entity = beta.entities[beta.gid("worker")]
    beta.run(ev.Attached(beta.call(), msgspec.structs.replace(entity, status="idle")))


def _detached(case: Case, *, forget: bool) -> None:
    case[2].run(ev.Detached(case[2].call(), case[2].gid("worker"), forget))


def _being_written_to(case: Case) -> None:
    msg_id, _ = brief(case[1], case[2])
    case[2].ready(msg_id, "worker")


def _write_over(case: Case) -> None:
    for (msg_id, _), row in list(case[2].ledger.items()):
        if row.state is InboxState.INJECTING:
            case[2].typed(msg_id, "worker")


def _stopped(case: Case) -> None:
    case[2].get(stop_by_hand(case[1], case[2], case[2].gid("worker")))


_forgotten = functools.partial(_detached, forget=True)
_idle, _working, _blocked, _away = (functools.partial(_seen, s) for s in ("idle", "working", "blocked", "away"))

AGENT = Table(
    "agent",
    states={
        "idle": [_case()],
        "working": [_case(_working)],
        "blocked": [_case(_blocked)],
        "away": [_case(_away)],
        "stopping": [_case(_being_written_to, _stopped)],
        "gone": [_case(_forgotten)],
    },
    events={
        "it is seen idle": _idle,
        "it is seen working": _working,
        "it is seen blocked": _blocked,
        "its pane or program is not there": _not_there,
        "`attach` by the same name": _attached,
        "`detach`": functools.partial(_detached, forget=False),
        "`detach --forget`": _forgotten,
        "STOP": _stopped,
        "the write in hand is over": _write_over,
        "the daemon starts again": _restarted,
    },
    say=_agent_state,
    impossible=frozenset(
        (event, state)
        for event in ("`attach` by the same name", "`detach`", "`detach --forget`")
        for state in ("stopping", "gone")
    ),
)

# --- an agent that beta starts for alpha


def _spawn_state(case: Case) -> str:
    beta = case[2]
    row = beta.spawns.get(spawned(beta))
    if row is None:
        return "none"
    words = [r for (_, gid), r in beta.ledger.items() if gid == gateway_of(FLEET, beta.name) and r.kind == "SPAWN"]
    told = f", told {words[0].state}" if words and words[0].state is not InboxState.WAITING else ""
    return f"{row.state}" + (f"({row.reason})" if row.reason else "") + told


def _asked(case: Case) -> None:
    _, alpha, beta = case
    beta.get(spawn_by_hand(alpha, beta))


def _runs(case: Case) -> None:
    launched(case[2])


def _ready(case: Case) -> None:
    case[2].run(ev.SpawnReady(spawned(case[2])))


def _bound(case: Case) -> None:
    case[2].run(ev.InboxBound(spawned(case[2])))


def _all_ready(case: Case) -> None:
    ready(case[2])


def _not_ready(case: Case) -> None:
    case[2].run(ev.SpawnFailed(spawned(case[2]), "limit", "Loading…"))


def _found(case: Case, *, alive: bool) -> None:
    case[2].run(ev.Adopted(spawned(case[2]), alive))


def _stop(case: Case) -> None:
    case[2].get(stop_by_hand(case[1], case[2], spawned(case[2])))


def _ended(case: Case) -> None:
    case[2].run(ev.AgentEnded(spawned(case[2]), ""))


SPAWN = Table(
    "spawn",
    states={
        "none": [_case()],
        "starting": [_case(_asked)],
        "ready, its inbox not open yet": [_case(_asked, _runs, _ready)],
        "ready": [_case(_asked, _all_ready)],
        "stopping": [_case(_asked, _all_ready, _stop)],
        "stopping, never ready": [_case(_asked, _stop)],
        "ended": [_case(_asked, _not_ready), _case(_asked, _all_ready, _stop, _ended)],
    },
    events={
        "SPAWN": _asked,
        "its program runs": _runs,
        "it is ready": _ready,
        "its inbox is open": _bound,
        "not ready in time, or its program ended": _not_ready,
        "STOP": _stop,
        "its program is ended": _ended,
        "the daemon starts again": _restarted,
    },
    say=_spawn_state,
    impossible=frozenset(
        ("its program is ended", state)
        for state in ("none", "starting", "ready, its inbox not open yet", "ready", "ended")
    ),
)

# --- a request to a host: alpha wants beta's worker ended, which is being written to


@dataclasses.dataclass(slots=True)
class _Asked:
    case: Case
    parsed: Parsed


def _request_state(asked: _Asked) -> str:
    beta = asked.case[2]
    row = beta.ledger.get((asked.parsed.envelope.msg_id, gateway_of(FLEET, beta.name)))
    return "none" if row is None else f"{row.state}({row.reason})" if row.reason else str(row.state)


def _request(*steps: Callable[[_Asked], object], name: str = "worker") -> Callable[[], _Asked]:
    def reach() -> _Asked:
        case = _case(_being_written_to)()
        asked = _Asked(case, stop_by_hand(case[1], case[2], case[2].gid(name)))
        for step in steps:
            step(asked)
            case[0].settle()
        return asked

    return reach


def _comes(asked: _Asked) -> None:
    asked.case[2].get(asked.parsed)


def _done(asked: _Asked) -> None:
    _write_over(asked.case)


def _called_back(asked: _Asked) -> None:
    _, alpha, beta = asked.case
    about = (asked.parsed.envelope.msg_id, gateway_of(FLEET, beta.name), Leaf(asked.parsed.leaf))
    beta.get(question(Kind.RECALL, alpha, beta, about))


def _expires(asked: _Asked) -> None:
    asked.case[2].wait(3_601)


def _starts_again(asked: _Asked) -> None:
    """In the middle of the write: its row is closed, and the end goes on."""
    asked.case[2].start()


REQUEST = Table(
    "request",
    states={
        "none": [_request()],
        "waiting": [_request(_comes)],
        "done": [_request(_comes, _done)],
        "failed": [_request(_comes, name="nobody")],
    },
    events={
        "it comes, or comes again": _comes,
        "what it asks for is done": _done,
        "RECALL by the host that asked": _called_back,
        "`expiresAt` passes": _expires,
        "the daemon starts again": _starts_again,
    },
    say=_request_state,
)
