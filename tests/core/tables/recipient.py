"""The recipient's row: what becomes of a message at the host that it went to, for agents and for clients."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.calls import Offered
from fleettrio.core.handouts import EVIDENCE_S
from fleettrio.core.rows import InboxState
from fleettrio.ids import MsgId
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Parsed
from tests.core.builders import Host, World, fleet_of, pair
from tests.core.hands import Hand
from tests.core.messages import question
from tests.core.tables.walk import Table

__all__ = ("PULL", "PUSH", "TAKEN")

MINUTE = 60.0
LIFETIME_MS = 600_000
LEASE_S = 121.0


@dataclasses.dataclass(slots=True)
class _Case:
    world: World
    sender: Host
    host: Host
    name: str
    msg_id: MsgId
    parsed: Parsed
    cursor: int = 0

    @property
    def state(self) -> InboxState | None:
        row = self.host.ledger.get((self.msg_id, self.host.gid(self.name)))
        return row.state if row else None


def _say(case: _Case) -> str:
    row = case.host.ledger.get((case.msg_id, case.host.gid(case.name)))
    if row is None:
        return "none"
    reason = f"({row.reason})" if row.reason else ""
    answer = f", {row.answer}" if row.answer else ""
    return f"{row.state}{reason}" + (", repeat" if row.repeat and row.state.is_open else "") + answer


# --- into a state


def _none(*, push: bool) -> _Case:
    world, alpha, beta = pair()
    sender, host, name = (alpha, beta, "worker") if push else (beta, alpha, "lead")
    msg_id = sender.send(f"{name}@{host.name}", expires_in_ms=LIFETIME_MS)
    (publish,) = sender.taken()
    sender.hand(publish)
    sender.verdict(publish)
    return _Case(world, sender, host, name, msg_id, sender.signed(publish))


def _reached(*steps: Callable[[_Case], object], push: bool) -> _Case:
    """A state, and every notice about it told."""
    case = _none(push=push)
    for step in steps:
        step(case)
        case.world.settle()
    return case


# --- events


def _comes(case: _Case) -> None:
    case.host.get(case.parsed)


def _ready(case: _Case) -> None:
    case.host.ready(case.msg_id, case.name)


def _written(outcome: str, case: _Case) -> None:
    case.host.typed(case.msg_id, case.name, outcome)


def _takes(case: _Case) -> None:
    Hand(case.host, case.name).hook()


def _shows(case: _Case) -> None:
    Hand(case.host, case.name).seen(case.msg_id)


def _shows_nothing(case: _Case) -> None:
    case.host.wait(EVIDENCE_S + 1)


def _answers(case: _Case) -> None:
    case.host.reply(case.msg_id, case.name)


def _turn_ends(case: _Case) -> None:
    case.host.run(ev.TurnEnded(case.host.gid(case.name), None, "done"))


def _pulls(case: _Case) -> None:
    offered = case.host.pull(case.name)
    if isinstance(offered, Offered):
        case.cursor = offered.cursor


def _confirms(case: _Case) -> None:
    case.host.confirm(case.cursor)


def _client_dies(case: _Case) -> None:
    case.host.run(ask.CallEnded(None, "s", gone=True))


def _called_back(case: _Case) -> None:
    about = (case.msg_id, case.host.gid(case.name), case.sender.sent(case.msg_id).leaf)
    case.host.get(question(Kind.RECALL, case.sender, case.host, about))


def _replaced(case: _Case) -> None:
    case.sender.send(f"{case.name}@{case.host.name}", body=b"rather this", supersedes=case.msg_id)
    (publish,) = [p for p in case.sender.taken() if p.envelope.kind == Kind.SEND]
    case.host.get(case.sender.signed(publish))


def _expires(case: _Case) -> None:
    case.host.wait(LIFETIME_MS / 1000 + 1)


def _too_late(case: _Case) -> None:
    """Its time is over before anything else happens: a lease that runs meanwhile ends, too."""
    case.world.clock.advance(LIFETIME_MS / 1000 + 1)
    case.host.expire()


def _lease_over(case: _Case) -> None:
    case.host.wait(LEASE_S)


def _with_lease(event: Callable[[_Case], object], case: _Case) -> None:
    """What is offered is decided when its client had its time."""
    event(case)
    if case.state is InboxState.OFFERED:
        _lease_over(case)


def _forgotten(case: _Case) -> None:
    case.host.run(ev.Detached(case.host.call(), case.host.gid(case.name), forget=True))


def _revoked(case: _Case) -> None:
    case.host.trust(fleet_of(("alpha", "beta"), revoked=(case.sender.name,), rev=2))


def _restarted(case: _Case) -> None:
    case.host.start()


def _failed(case: _Case) -> None:
    _revoked(case)
    case.host.trust(fleet_of(("alpha", "beta"), rev=3))


def _ways(*, push: bool, **steps: tuple[Callable[[_Case], object], ...]) -> dict[str, list[Callable[[], _Case]]]:
    return {name: [functools.partial(_reached, *done, push=push)] for name, done in steps.items()}


_FINAL = (
    (_comes, _called_back),
    (_comes, _replaced),
    (_comes, _expires),
    (_comes, _failed),
)
_submitted, _nothing, _unseen = (
    functools.partial(_written, w) for w in ("submitted", "nothing-written", "not-observed")
)

PUSH = Table(
    "recipient-push",
    states={
        **_ways(push=True, none=()),
        **_ways(push=True, waiting=(_comes,), injecting=(_comes, _ready)),
        **_ways(push=True, unconfirmed=(_comes, _ready, _unseen), injected=(_comes, _ready, _submitted)),
        "injected, ended": [functools.partial(_reached, _comes, _ready, _submitted, _turn_ends, push=True)],
        "injected, answered": [functools.partial(_reached, _comes, _ready, _submitted, _answers, push=True)],
        "final": [functools.partial(_reached, *steps, push=True) for steps in _FINAL],
    },
    events={
        "it comes, or comes again": _comes,
        "its agent is ready for it": _ready,
        "the write: taken, the turn was seen": _submitted,
        "the write: not one byte went in": _nothing,
        "the write: nobody saw what came of it": _unseen,
        "the agent answers it": _answers,
        "the agent's turn ends": _turn_ends,
        "RECALL by its sender's host": _called_back,
        "its sender replaces it": _replaced,
        "`expiresAt` passes": _expires,
        "the agent is stopped or forgotten": _forgotten,
        "its sender's host is revoked": _revoked,
        "the daemon starts again": _restarted,
    },
    say=_say,
    impossible=frozenset({("the agent answers it", "none")}),
)

TAKEN = Table(
    "recipient-takes",
    states={
        **_ways(push=True, none=(), waiting=(_comes,), injecting=(_comes, _takes)),
        **_ways(push=True, unconfirmed=(_comes, _takes, _shows_nothing), injected=(_comes, _takes, _shows)),
        "final": [functools.partial(_reached, *steps, push=True) for steps in _FINAL],
    },
    events={
        "a hook of the agent, or its poll, takes it": _takes,
        "its harness shows that it went in": _shows,
        "10 s without a sign of it": _shows_nothing,
        "the agent answers it": _answers,
        "RECALL by its sender's host": _called_back,
        "its sender replaces it": _replaced,
        "`expiresAt` passes": _too_late,
        "the agent is stopped or forgotten": _forgotten,
        "its sender's host is revoked": _revoked,
        "the daemon starts again": _restarted,
    },
    say=_say,
    impossible=frozenset({("the agent answers it", "none")}),
)

PULL = Table(
    "recipient-pull",
    states={
        **_ways(push=False, none=(), waiting=(_comes,), offered=(_comes, _pulls)),
        "waiting, repeat": [functools.partial(_reached, _comes, _pulls, _lease_over, push=False)],
        "unconfirmed": [functools.partial(_reached, _comes, _pulls, _lease_over, _called_back, push=False)],
        "drained": [functools.partial(_reached, _comes, _pulls, _confirms, push=False)],
        "final": [functools.partial(_reached, *steps, push=False) for steps in _FINAL],
    },
    events={
        "it comes, or comes again": _comes,
        "its client fetches": _pulls,
        "its client says that it has it": _confirms,
        "two minutes without that word": _lease_over,
        "its client's connection dies": _client_dies,
        "RECALL by its sender's host": functools.partial(_with_lease, _called_back),
        "its sender replaces it": functools.partial(_with_lease, _replaced),
        "`expiresAt` passes": _too_late,
        "the client is forgotten": _forgotten,
        "its sender's host is revoked": _revoked,
        "the daemon starts again": _restarted,
    },
    say=_say,
)
