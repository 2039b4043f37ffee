"""The fleet: whose keys it knows, and what each grant allows."""

from __future__ import annotations

from typing import Any

import pytest

from fleettrio.ids import HostId, WallMs
from fleettrio.wire.envelope import NOTICE_KINDS, Kind
from fleettrio.wire.fleet import DEFAULT_GRANTS, FleetHost, HostKey, is_grant, solo_fleet
from tests.wire.makers import ALPHA, BETA, FLEET_ID, NOW, fleet, signer


def test_a_key_or_the_reason_why_not() -> None:
    trusted = fleet(revoked=frozenset({(BETA, 2), (HostId("gone"), 1)}))
    assert trusted.key("alpha", 1) == signer(ALPHA).public_key
    assert trusted.key("delta", 1) == "unknown-host"
    assert trusted.key("alpha", 3) == "key-generation"
    assert trusted.key("beta", 2) == trusted.key("gone", 1) == "revoked"


def with_grants(*grants: str) -> Any:
    return fleet(hosts={ALPHA: FleetHost(ALPHA, fleet().hosts[ALPHA].keys, frozenset(grants))})


@pytest.mark.parametrize(
    ("grant", "kinds"),
    [
        ("send", "SEND COORD"),
        ("reply", "REPLY ANSWER RPC"),
        ("ask", "ASK"),
        ("broadcast", "BROADCAST"),
        ("spawn:reviewer", "SPAWN STOP"),
        ("stop", "STOP"),
        ("pause", "PAUSE"),
        ("report", ""),
    ],
)
def test_each_grant_allows_its_kinds_and_no_others(grant: str, kinds: str) -> None:
    free = NOTICE_KINDS | {"PRESENCE", "PING", "PONG", "ROSTER_ASK", "ROSTER", "TRACE", "TRACED", "QUERY", "RECALL"}
    granted = with_grants(grant)
    assert is_grant(grant)
    assert {kind for kind in Kind if granted.allows("alpha", kind)} == free | set(kinds.split())
    assert not granted.allows("alpha", "FLEET")


def test_a_stranger_may_nothing() -> None:
    assert not any(fleet().allows("delta", kind) for kind in Kind)
    assert fleet().grants("delta") == frozenset()


def test_what_a_host_may_by_default() -> None:
    assert fleet().grants("alpha") == DEFAULT_GRANTS == {"send", "ask", "reply", "broadcast"}


@pytest.mark.parametrize("grant", ["", "spawn", "spawn:", "spawn:Bad", "root", "stop:x"])
def test_no_grants(grant: str) -> None:
    assert not is_grant(grant)


def test_expiry_warns_and_cuts_nobody_off() -> None:
    trusted = fleet(not_after=WallMs(NOW))
    assert [trusted.is_expired(NOW), trusted.is_expired(NOW + 1)] == [False, True]
    assert isinstance(trusted.key("alpha", 1), bytes)
    assert not fleet(not_after=WallMs(0)).is_expired(NOW)


def test_a_host_without_a_fleet_is_one_of_its_own() -> None:
    key = HostKey(ALPHA, 1, signer().public_key)
    alone = solo_fleet(FLEET_ID, key)
    assert alone.key("alpha", 1) == key.key
    assert alone.allows("alpha", "SEND")
    assert alone.key("beta", 1) == "unknown-host"
    assert not alone.is_expired(NOW)
