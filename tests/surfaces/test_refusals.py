"""Every reason to refuse, reached on the real broker by somebody who builds his own frames.

A refused message costs itself and nothing else: it is counted, told, never delivered, and the good one behind it is
there next, on the same connection.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

import pytest

from fleettrio._accel import encode_header
from fleettrio.api.schema import Confirm, Pull, Pulled
from fleettrio.clients.client import Client
from fleettrio.core.topology import CONTROL
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.raw_client import RawClient, field, nested_arrays, properties, table
from fleettrio.testing.waiting import wait_until
from fleettrio.wire.signing import REFUSAL_REASONS
from tests.surfaces.forger import Forged, good, raw_client, signer_of

GOOD_WITHIN_S = 50.0
MINUTE_MS = 60_000


class Target:
    """beta with a reader, and hosts that are only keys: gamma may ask only, delta is revoked, mallory is unknown."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.alpha, self.beta = fleet["alpha"], fleet["beta"]
        self.token = self.beta.ok("attach", "--name", "reader", "--json").json()["token"]
        agent = self.beta.agent("reader@beta")
        assert agent is not None
        self.gid = agent.gid
        self.other = self.beta.ok("attach", "--name", "other", "--json").json()["gid"]
        fleet.add(fleet["gamma"], "--grants", "ask")
        fleet.add(fleet["delta"])
        self.alpha.ok("host", "revoke", "delta", "--yes")
        fleet["mallory"].ok("init")
        fleet.carry(self.beta)

    def host(self, name: str) -> Host:
        return self.fleet[name]

    def refused(self) -> dict[str, int]:
        return self.beta.status().refused

    def take(self, client: Client, limit_s: float) -> bytes | None:
        """The next message of the reader, confirmed."""
        pulled: Pulled = client.call("pull", Pull(limit=1, wait_s=limit_s))
        client.call("confirm", Confirm(pulled.cursor))
        return pulled.messages[0].body if pulled.messages else None


@pytest.fixture(scope="module")
def target(broker: BrokerNode) -> Iterator[Target]:
    with Fleet(broker, "alpha", "beta", later=("gamma", "delta", "mallory")) as fleet:
        yield Target(fleet)


def _with(forged: Forged, **fields: object) -> Forged:
    return dataclasses.replace(forged, fields={**forged.fields, **fields})


def _now() -> int:
    return time.time_ns() // 1_000_000


def _known_with_other_content(target: Target) -> Forged:
    first = good(target.alpha, target.gid, b"first")
    with raw_client(target.fleet) as raw, target.beta.client(target.token) as client:
        first.send(raw)
        assert target.take(client, GOOD_WITHIN_S) == b"first"
    return dataclasses.replace(first, body=b"second")


def _from_another_host(target: Target) -> Forged:
    return _with(good(target.alpha, target.gid), **{"from": good(target.host("beta"), target.gid).fields["from"]})


# Reason and case → how it is made.
FORGERIES: dict[tuple[str, str], Callable[[Target], Forged]] = {
    ("malformed", "no CBOR"): lambda t: dataclasses.replace(good(t.alpha, t.gid), header=b"\xff\x00 not CBOR"),
    ("malformed", "a field missing"): lambda t: dataclasses.replace(
        good(t.alpha, t.gid), header=encode_header({"v": 1, "kind": "SEND"})
    ),
    ("malformed", "oversize"): lambda t: good(t.alpha, t.gid, b"x" * (256 * 1024 + 1)),
    ("malformed", "fleet twice"): lambda t: dataclasses.replace(good(t.alpha, t.gid), extra=(field("fleet", b"x"),)),
    ("version", "2"): lambda t: _with(good(t.alpha, t.gid), v=2),
    ("wrong-fleet", "signed in another"): lambda t: dataclasses.replace(
        good(t.alpha, t.gid), signer=signer_of(t.alpha, fleet="other"), extra=(field("fleet-id", "other"),)
    ),
    ("unknown-host", "mallory"): lambda t: good(t.host("mallory"), t.gid),
    ("revoked", "delta"): lambda t: good(t.host("delta"), t.gid),
    ("key-generation", "7"): lambda t: _with(good(t.alpha, t.gid), keyGen=7),
    ("signature", "another key"): lambda t: dataclasses.replace(
        good(t.alpha, t.gid), signer=signer_of(t.alpha, seed=bytes(32))
    ),
    ("signature", "63 bytes"): lambda t: dataclasses.replace(good(t.alpha, t.gid), sig=bytes(63)),
    ("wrong-host", "from of beta"): _from_another_host,
    ("wrong-recipient", "for another inbox"): lambda t: dataclasses.replace(good(t.alpha, t.other), key=t.gid),
    ("wrong-recipient", "CC"): lambda t: dataclasses.replace(
        good(t.alpha, t.gid), extra=(field("CC", b"\0\0\0\6S\0\0\0\1x", b"A"),)
    ),
    ("unknown-kind", "DANCE"): lambda t: _with(good(t.alpha, t.gid), kind="DANCE"),
    ("not-authorised", "gamma may only ask"): lambda t: good(t.host("gamma"), t.gid),
    ("conflict", "another body"): _known_with_other_content,
    ("expired", "a minute ago"): lambda t: good(
        t.alpha, t.gid, ts=_now() - 3 * MINUTE_MS, expiresAt=_now() - MINUTE_MS
    ),
    ("future", "a skew of 2 min"): lambda t: good(
        t.alpha, t.gid, ts=_now() + 2 * MINUTE_MS, expiresAt=_now() + 3 * MINUTE_MS
    ),
}


def test_every_reason_is_reached() -> None:
    assert {reason for reason, _ in FORGERIES} == set(REFUSAL_REASONS)


def _assert_good_one_comes(target: Target, raw: RawClient, client: Client) -> None:
    """The next message is delivered, and it is the next one that the reader sees."""
    body = f"good {_now()}".encode()
    assert good(target.alpha, target.gid, body).send(raw) == "ack"
    assert target.take(client, GOOD_WITHIN_S) == body


@pytest.mark.parametrize(("reason", "case"), FORGERIES, ids=lambda word: word.replace(" ", "-"))
def test_a_forged_message_is_refused_and_the_good_one_behind_it_delivered(
    target: Target, reason: str, case: str
) -> None:
    sessions = target.beta.log.count("session open")
    forged = FORGERIES[reason, case](target)
    before = target.refused().get(reason, 0)
    with raw_client(target.fleet) as raw, target.beta.client(target.token) as client:
        assert forged.send(raw) == "ack"
        _assert_good_one_comes(target, raw, client)
    assert target.refused()[reason] == before + 1
    assert target.beta.log.count("session open") == sessions, "the connection was not lost over it"


POISON = {
    "timestamp 2^64-1": properties(table(field("fleet", b"x")), timestamp=2**64 - 1),
    "2 000 nested arrays": properties(table(field("deep", nested_arrays(2_000), b"A"))),
    "a key that is not UTF-8": properties(table(field(b"\xff\xfe", b"value"))),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_poison_in_the_header_costs_one_message(target: Target, poison: bytes) -> None:
    sessions = target.beta.log.count("session open")
    before = target.refused().get("malformed", 0)
    with raw_client(target.fleet) as raw, target.beta.client(target.token) as client:
        assert raw.publish("fleet.msg", target.gid, poison, b"poison") == "ack"
        assert raw.publish(CONTROL, "beta", poison, b"poison") == "ack"
        _assert_good_one_comes(target, raw, client)
    wait_until("both are counted", lambda: target.refused().get("malformed", 0) == before + 2)
    assert target.beta.log.count("session open") == sessions


def test_poison_around_a_good_message_does_no_harm(target: Target) -> None:
    whole = dataclasses.replace(
        good(target.alpha, target.gid, b"wrapped"), extra=(field("deep", nested_arrays(2_000), b"A"),)
    )
    with raw_client(target.fleet) as raw, target.beta.client(target.token) as client:
        assert whole.send(raw) == "ack"
        assert target.take(client, GOOD_WITHIN_S) == b"wrapped"


def test_a_replayed_message_is_seen_once(target: Target) -> None:
    once = good(target.alpha, target.gid, b"once")
    before = target.refused()
    with raw_client(target.fleet) as raw, target.beta.client(target.token) as client:
        assert [once.send(raw) for _ in range(3)] == ["ack"] * 3
        assert target.take(client, GOOD_WITHIN_S) == b"once"
        _assert_good_one_comes(target, raw, client)
    assert target.refused() == before


def test_a_copy_to_another_inbox_by_bcc_is_refused_there(target: Target) -> None:
    """BCC is taken out by the broker: what betrays the copy is that its address is another one."""
    copies = field(
        "BCC",
        b"\0\0\0" + bytes([5 + len(target.gid)]) + b"S\0\0\0" + bytes([len(target.gid)]) + target.gid.encode(),
        b"A",
    )
    forged = dataclasses.replace(good(target.alpha, target.other, b"copied"), extra=(copies,))
    before = target.refused().get("wrong-recipient", 0)
    with raw_client(target.fleet) as raw, target.beta.client(target.token) as client:
        assert forged.send(raw) == "ack"
        _assert_good_one_comes(target, raw, client)
    wait_until("the copy is refused", lambda: target.refused().get("wrong-recipient", 0) > before)
