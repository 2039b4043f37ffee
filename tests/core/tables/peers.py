"""Another host, as this one knows it: alpha hears beta, or does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Parsed
from tests.core.builders import Host, pair
from tests.core.tables.walk import Table

__all__ = ("PEER",)

BEAT_S = 5
DAY_S = 86_400.0


@dataclasses.dataclass(slots=True)
class _Case:
    alpha: Host
    beta: Host
    older: Parsed
    """A beat that alpha has heard."""


def _say(case: _Case) -> str:
    peer = case.alpha.peers.get(case.beta.name)
    if peer is None:
        return "not known"
    if peer.has_left:
        return "left"
    return "unknown" if case.alpha.gateway.roster.is_silent(case.beta.name, case.alpha.clock.now.wall) else "up"


def _said(beta: Host, event: ev.Event) -> Parsed:
    beta.run(event)
    (beat,) = [p for p in beta.taken() if p.envelope.kind == Kind.PRESENCE and p.envelope.to.endswith("_gateway")]
    return beta.signed(beat)


def _way(*steps: Callable[[_Case], object]) -> Callable[[], _Case]:
    def reach() -> _Case:
        _, alpha, beta = pair()
        beta.clock.advance(BEAT_S)
        older = _said(beta, ev.BeatDue())
        alpha.get(older)
        case = _Case(alpha, beta, older)
        for step in steps:
            step(case)
        return case

    return reach


def _beats(case: _Case) -> None:
    """It is up, or up again, and says so."""
    case.beta.clock.advance(1)
    case.beta.start()
    case.beta.run(ev.SessionOpened(1))
    case.beta.taken()
    case.alpha.get(_said(case.beta, ev.BeatDue()))


def _replayed(case: _Case) -> None:
    case.alpha.get(case.older)


def _leaves(case: _Case) -> None:
    _beats(case)
    case.alpha.get(_said(case.beta, ev.Leaving()))


def _silent(case: _Case) -> None:
    case.alpha.wait(3 * BEAT_S + 1)


def _month(case: _Case) -> None:
    case.alpha.wait(31 * DAY_S + 60)


def _forgotten(case: _Case) -> None:
    case.alpha.run(ask.ForgetAsked(case.alpha.call(), case.beta.name))


def _restarted(case: _Case) -> None:
    case.alpha.start()


PEER = Table(
    "peer",
    states={
        "up": [_way()],
        "unknown": [_way(_silent)],
        "left": [_way(_leaves)],
        "not known": [_way(_forgotten)],
    },
    events={
        "a beat": _beats,
        "a beat that was heard before": _replayed,
        "its last beat, which says that it leaves": _leaves,
        "three beats without one": _silent,
        "31 days without one": _month,
        "`host forget`": _forgotten,
        "the daemon here starts again": _restarted,
    },
    say=_say,
)
