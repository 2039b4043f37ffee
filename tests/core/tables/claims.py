"""A claim at its arbiter: alpha, whose lead claims first, and whose person claims then."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.ids import HostId
from tests.core.builders import TRACE, Host, pair, salt_of
from tests.core.tables.walk import Table

__all__ = ("CLAIM",)

KEY = "issue-149"
LEASE_S = 601.0


@dataclasses.dataclass(slots=True)
class _Case:
    host: Host


def _say(case: _Case) -> str:
    host = case.host
    claim = host.gateway.claims.rows.get(KEY)
    if claim is None or not claim.holder:
        return "free"
    who = {host.gid("lead"): "A", host.gid("human"): "B"}[claim.holder]
    lapsed = "lapsed, " if host.gateway.claims.is_lapsed(claim, host.clock.now) else ""
    return f"{lapsed}{who}'s, fence {claim.fence}"


def _way(*steps: Callable[[_Case], object]) -> Callable[[], _Case]:
    def reach() -> _Case:
        case = _Case(pair()[1])
        for step in steps:
            step(case)
        return case

    return reach


def _call(name: str, who: str, case: _Case, **args: object) -> None:
    host = case.host
    given = {"key": KEY, "gid": str(host.gid(who)), "salt": salt_of(who), **args}
    asked = ask.RpcAsked(
        call=host.call(), host=HostId("alpha"), name=name, args=given, msg_id=host.new_id(), trace_id=TRACE
    )
    host.run(asked)


_claims_a, _claims_b = (functools.partial(_call, "claim", who) for who in ("lead", "human"))
_takes_b = functools.partial(_call, "claim", "human", lapsed=True)
_releases_a, _releases_b = (functools.partial(_call, "release", who) for who in ("lead", "human"))


def _old_fence(case: _Case) -> None:
    _call("release", "lead", case, fence=0)


def _away(case: _Case) -> None:
    case.host.run(ev.AgentSeen(case.host.gid("lead"), "away"))


def _away_long(case: _Case) -> None:
    _away(case)
    case.host.wait(LEASE_S)


def _here_long(case: _Case) -> None:
    case.host.wait(LEASE_S)


def _back(case: _Case) -> None:
    case.host.run(ev.AgentSeen(case.host.gid("lead"), "idle"))


def _gone(case: _Case) -> None:
    case.host.run(ev.Detached(case.host.call(), case.host.gid("lead"), forget=True))


def _restarted(case: _Case) -> None:
    case.host.start()


CLAIM = Table(
    "claim",
    states={
        "free": [_way()],
        "A's": [_way(_claims_a)],
        "A's, lapsed": [_way(_claims_a, _away_long)],
        "B's": [_way(_claims_b)],
        "free again": [_way(_claims_a, _releases_a)],
    },
    events={
        "A claims": _claims_a,
        "B claims": _claims_b,
        "B claims with `--lapsed`": _takes_b,
        "A releases": _releases_a,
        "A releases with an old fence": _old_fence,
        "B releases": _releases_b,
        "A is there for 10 min": _here_long,
        "A is away for 10 min": _away_long,
        "A is back": _back,
        "A is gone for good": _gone,
        "the daemon starts again": _restarted,
    },
    say=_say,
)
