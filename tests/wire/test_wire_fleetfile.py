"""The fleet file: both ways, what is refused and how it is said; leads."""

from __future__ import annotations

import re
from typing import Any

import cbor2
import msgspec
import nacl.signing
import pytest

from fleettrio.errors import ConfigError
from fleettrio.ids import FleetId, HostId
from fleettrio.wire.fingerprint import words
from fleettrio.wire.fleet import FleetHost
from fleettrio.wire.fleetfile import read_fleet, sign_fleet
from tests.vectors.load import VECTORS
from tests.wire.makers import ALPHA, OWNER_SEED, fleet

OWNER = bytes(nacl.signing.SigningKey(OWNER_SEED).verify_key)


def signed(**changes: Any) -> bytes:
    """A fleet file whose body has other fields than it should, but a good signature."""
    fields = cbor2.loads(cbor2.loads(sign_fleet(fleet(), OWNER_SEED))["body"]) | changes
    body = cbor2.dumps({name: value for name, value in fields.items() if value is not None}, canonical=True)
    signature = nacl.signing.SigningKey(OWNER_SEED).sign(b"fleettrio/1 fleet\0" + body).signature
    return cbor2.dumps({"body": body, "owner": OWNER, "sig": signature}, canonical=True)


def test_it_comes_back_as_it_was_with_its_owners_key() -> None:
    made = fleet()
    assert read_fleet(sign_fleet(made, OWNER_SEED), pinned_owner=None) == msgspec.structs.replace(made, owner_key=OWNER)
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


def leads(*pairs: tuple[HostId, str]) -> Any:
    return fleet(hosts={host: FleetHost(host, fleet().hosts[ALPHA].keys, coord_id=lead) for host, lead in pairs})


def test_a_coordinators_fleet_file_pairs_leads_with_hosts() -> None:
    read = read_fleet(sign_fleet(leads((ALPHA, "lead-a")), OWNER_SEED), pinned_owner=None)
    assert read.coord_id("alpha") == "lead-a"
    assert read.host_of_lead("lead-a") == ALPHA
    assert (read.coord_id("delta"), read.host_of_lead("lead-x"), read.host_of_lead("")) == ("", None, None)


def test_a_fleet_without_leads_has_the_bytes_that_it_always_had() -> None:
    assert b"coordId" not in sign_fleet(leads((ALPHA, "")), OWNER_SEED)


@pytest.mark.parametrize("pairs", [((ALPHA, "Lead A"),), ((ALPHA, "lead"), (HostId("beta"), "lead"))])
def test_a_coord_id_is_a_name_and_one_hosts(pairs: tuple[tuple[HostId, str], ...]) -> None:
    with pytest.raises(ConfigError, match="coordId"):
        sign_fleet(leads(*pairs), OWNER_SEED)
