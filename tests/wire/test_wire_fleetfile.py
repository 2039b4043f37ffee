"""The fleet file and the host line: both ways, what is refused and how it is said; keys and grants."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import cbor2
import nacl.signing
import pytest

from fleettrio.errors import ConfigError
from fleettrio.ids import FleetId, HostId, WallMs
from fleettrio.wire.envelope import NOTICE_KINDS, Kind
from fleettrio.wire.fleetfile import (
    DEFAULT_GRANTS,
    FleetHost,
    HostKey,
    fingerprint,
    host_line,
    is_grant,
    read_fleet,
    read_host_line,
    sign_fleet,
    solo_fleet,
    words,
)
from fleettrio.wire.wordlist import WORDS
from tests.vectors.load import VECTORS
from tests.wire.makers import ALPHA, BETA, FLEET_ID, NOW, OWNER_SEED, fleet, signer

OWNER = bytes(nacl.signing.SigningKey(OWNER_SEED).verify_key)


def signed(**changes: Any) -> bytes:
    """A fleet file whose body has other fields than it should, but a good signature."""
    fields = cbor2.loads(cbor2.loads(sign_fleet(fleet(), OWNER_SEED))["body"]) | changes
    body = cbor2.dumps({name: value for name, value in fields.items() if value is not None}, canonical=True)
    signature = nacl.signing.SigningKey(OWNER_SEED).sign(b"fleettrio/1 fleet\0" + body).signature
    return cbor2.dumps({"body": body, "owner": OWNER, "sig": signature}, canonical=True)


def test_it_comes_back_as_it_was_with_its_owners_key() -> None:
    made = fleet()
    assert read_fleet(sign_fleet(made, OWNER_SEED), pinned_owner=None) == dataclasses.replace(made, owner_key=OWNER)
    assert read_fleet(sign_fleet(made, OWNER_SEED), pinned_owner=OWNER).rev == 3


def test_frozen_fleet_file() -> None:
    frozen = VECTORS["fleetFile"]
    read = read_fleet(bytes.fromhex(frozen["file"]), pinned_owner=bytes.fromhex(frozen["ownerKey"]))
    assert (read.fleet_id, read.rev, sorted(read.hosts)) == ("prod", 7, ["alpha", "beta"])
    assert sign_fleet(read, bytes.fromhex(frozen["ownerSeed"])) == bytes.fromhex(frozen["file"])


def test_another_owner_is_refused_with_both_their_words() -> None:
    data = sign_fleet(fleet(), b"\7" * 32)
    with pytest.raises(ConfigError, match="signed by another owner") as caught:
        read_fleet(data, pinned_owner=OWNER)
    assert words(OWNER) in str(caught.value)


def test_one_changed_bit_is_refused() -> None:
    data = bytearray(sign_fleet(fleet(), OWNER_SEED))
    for at in range(0, len(data), 7):
        data[at] ^= 1
        with pytest.raises(ConfigError):
            read_fleet(bytes(data), pinned_owner=OWNER)
        data[at] ^= 1
    assert read_fleet(bytes(data), pinned_owner=OWNER).rev == 3


def test_the_size_is_judged_before_anything_is_read() -> None:
    with pytest.raises(ConfigError, match="1048577 bytes, the most is 1048576"):
        read_fleet(bytes(1024 * 1024 + 1), pinned_owner=None)


_KEY = {"gen": 1, "key": bytes(32)}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"v": 2}, "newer version"),
        ({"fleetId": "Prod"}, "'Prod' cannot be the name of a fleet"),
        ({"fleetId": None}, "`fleetId` must be text"),
        ({"rev": -1}, "`rev` must be a number from 0"),
        ({"notAfter": "soon"}, "`notAfter` must be a number"),
        ({"hosts": {}}, "`hosts` must be a list of maps"),
        ({"hosts": [1]}, "`hosts` must be a list of maps"),
        ({"revoked": [{"host": "alpha"}]}, "`gen` must be a number"),
        ({"hosts": [{"host": "ALPHA", "keys": [_KEY], "grants": [], "notAfter": 0}]}, "not a host id"),
        ({"hosts": [{"host": "a", "keys": [], "grants": [], "notAfter": 0}]}, "needs one key"),
        ({"hosts": [{"host": "a", "keys": [_KEY, _KEY], "grants": [], "notAfter": 0}]}, "needs one key"),
        ({"hosts": [{"host": "a", "keys": [{"gen": 1, "key": b""}], "grants": [], "notAfter": 0}]}, "32 of them"),
        ({"hosts": [{"host": "a", "keys": [_KEY], "grants": ["root"], "notAfter": 0}]}, "must be a list of grants"),
        ({"hosts": [{"host": "a", "keys": [_KEY], "grants": [], "notAfter": 0}] * 2}, "a host appears twice"),
    ],
)
def test_a_signed_file_is_checked_all_the_same(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        read_fleet(signed(**changes), pinned_owner=OWNER)


def test_what_could_not_be_read_is_not_signed() -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a fleet"):
        sign_fleet(fleet(fleet_id=FleetId("No Name")), OWNER_SEED)


# --- keys and grants ----------------------------------------------------------------------------


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


# --- the host line ------------------------------------------------------------------------------


def test_a_host_line_comes_back() -> None:
    line = host_line(ALPHA, 4, b"\6" * 32)
    assert "\n" not in line
    assert read_host_line(f"  {line}\n") == HostKey(ALPHA, 4, bytes(nacl.signing.SigningKey(b"\6" * 32).verify_key))


def test_frozen_host_line() -> None:
    frozen = VECTORS["hostLine"]
    assert host_line(frozen["host"], frozen["gen"], bytes.fromhex(frozen["seed"])) == frozen["line"]
    assert read_host_line(frozen["line"]) == HostKey(BETA, 1, bytes.fromhex(frozen["key"]))


def test_a_damaged_host_line_is_refused_wherever_it_is_damaged() -> None:
    line = host_line(ALPHA, 1, b"\6" * 32)
    for at in range(len(line)):
        for damaged in (line[:at] + line[at + 1 :], line[:at] + ("A" if line[at] != "A" else "B") + line[at + 1 :]):
            with pytest.raises(ConfigError, match="host line"):
                read_host_line(damaged)


@pytest.mark.parametrize("line", ["", "ssh-ed25519 AAAA", "ft-host-1:", "ft-host-1:é", "ft-host-1:" + "A" * 2000])
def test_what_is_no_host_line(line: str) -> None:
    with pytest.raises(ConfigError, match="host line"):
        read_host_line(line)


def test_a_host_line_for_a_reserved_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="'human' is not a host id"):
        read_host_line(host_line("human", 1, b"\6" * 32))


def test_words_and_fingerprint_are_of_the_key() -> None:
    assert len(set(WORDS)) == len(WORDS) == 256
    assert all(re.fullmatch("[a-z]{3,8}", word) for word in WORDS)
    assert len(words(OWNER).split()) == 6
    assert words(OWNER) == words(OWNER) != words(signer().public_key)
    assert re.fullmatch("([0-9a-f]{4} ){7}[0-9a-f]{4}", fingerprint(OWNER))
