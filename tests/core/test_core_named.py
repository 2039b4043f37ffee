"""Agents of other hosts are found by name and by host, however they come and go."""

from __future__ import annotations

from fleettrio.core.named import Others
from fleettrio.core.peer import PeerEntity
from fleettrio.ids import Gid, HostId


def other(gid: str, host: str, name: str = "worker") -> PeerEntity:
    return PeerEntity(gid=Gid(gid), host=HostId(host), name=name)


def found(others: Others, host: str) -> set[str]:
    gids = {str(one.gid) for one in others.of_host(HostId(host))}
    assert len(gids) == others.count(HostId(host))
    return gids


def test_the_agents_of_a_host_are_found_among_those_of_many() -> None:
    others = Others(other(f"{host}-{number}", host) for host in ("beta", "gamma") for number in range(3))
    assert found(others, "beta") == {"beta-0", "beta-1", "beta-2"}
    others.pop(Gid("beta-1"))
    assert found(others, "beta") == {"beta-0", "beta-2"}
    assert found(others, "gamma") == {"gamma-0", "gamma-1", "gamma-2"}
    assert found(others, "delta") == set()


def test_an_agent_that_changes_is_where_it_is_now() -> None:
    others = Others([other("one", "beta")])
    others[Gid("one")] = other("one", "beta", name="lead")
    assert found(others, "beta") == {"one"}
    assert [one.gid for one in others.named("lead")] == ["one"]
    assert others.named("worker") == []
    others[Gid("one")] = other("one", "gamma", name="lead")
    assert (found(others, "beta"), found(others, "gamma")) == (set(), {"one"})
    others.clear()
    assert (found(others, "gamma"), others.named("lead"), len(others)) == (set(), [], 0)
