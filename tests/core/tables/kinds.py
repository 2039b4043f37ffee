"""The kinds of messages, as the code has them: where they go, how long they live, who may send them."""

from __future__ import annotations

import msgspec

from fleettrio.core.compose import exchange_for
from fleettrio.core.deadletters import TOLD_KINDS
from fleettrio.core.link import TRANSIENT
from fleettrio.wire.envelope import default_lifetime_ms, longest_lifetime_ms
from fleettrio.wire.fleet import ALL_GRANTS
from fleettrio.wire.kinds import Kind
from tests.core.builders import fleet_of

__all__ = ("draw",)

HEAD = ("kind", "exchange", "on the broker's disk", "lives", "at most", "needs the grant", "its death is told")
SPAWN_GRANT = "spawn:coder"


def draw() -> str:
    """The table in Markdown, a line for each kind."""
    lines = [HEAD, ("---",) * len(HEAD), *(_cells(kind) for kind in Kind)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(kind: Kind) -> tuple[str, ...]:
    lives, pulled = (default_lifetime_ms(kind, takes=takes) for takes in ("push", "pull"))
    return (
        kind,
        f"`{exchange_for(kind)}`",
        "" if kind in TRANSIENT else "yes",
        _span(lives) + (f", {_span(pulled)} for a client" if pulled != lives else ""),
        _span(longest_lifetime_ms(kind)),
        _grants(kind),
        "yes" if kind in TOLD_KINDS else "",
    )


def _grants(kind: Kind) -> str:
    """Every grant that by itself lets a host send it; empty: any host of the fleet may."""
    if _may(kind, ""):
        return ""
    able = [grant for grant in (*sorted(ALL_GRANTS), SPAWN_GRANT) if _may(kind, grant)]
    return " or ".join(f"`{grant.replace('coder', '<profile>')}`" for grant in able)


def _may(kind: Kind, grant: str) -> bool:
    fleet = fleet_of(("alpha",))
    (host,) = fleet.hosts.values()
    host = msgspec.structs.replace(host, grants=frozenset({grant} - {""}))
    return msgspec.structs.replace(fleet, hosts={host.host: host}).allows(host.host, kind)


def _span(ms: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms >= size and ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms // 1000} s"
