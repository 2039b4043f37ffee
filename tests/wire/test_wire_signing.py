"""Signing, and every check of the verifier in its order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from fleettrio import _accel
from fleettrio.errors import ProtocolMisuse
from fleettrio.ids import FleetId, HostId, WallMs
from fleettrio.wire import signing
from fleettrio.wire.envelope import Envelope, Kind, encode_envelope
from fleettrio.wire.fleet import Fleet, FleetHost, HostKey
from fleettrio.wire.fleetfile import read_fleet
from fleettrio.wire.headers import RawHeaders
from fleettrio.wire.signing import (
    REFUSAL_REASONS,
    SKEW_MS,
    Duplicate,
    Judgement,
    Parsed,
    Refusal,
    Signer,
    VerifiedEnvelope,
    Verifier,
    parse_delivery,
)
from tests.vectors.load import VECTORS, named
from tests.wire.makers import (
    ALPHA,
    BETA,
    FLEET_ID,
    LEAD,
    NOW,
    WORKER,
    Queue,
    delivered,
    envelope,
    fleet,
    presence,
    reply_id,
    signer,
)


def judge(
    item: Parsed, *, queue: str = WORKER, known: bytes | None = None, now: int = NOW, by: Fleet | None = None
) -> Judgement:
    [judgement] = Verifier(by or fleet()).judge([item], [Queue(queue)], [known], now)
    return judgement


def refused(judgement: Judgement | Parsed) -> Refusal:
    assert isinstance(judgement, Refusal), judgement
    return judgement


# --- the frozen deliveries ----------------------------------------------------------------------


@pytest.mark.parametrize("case", named("deliveries"))
def test_frozen_delivery(case: dict[str, Any]) -> None:
    trusted = read_fleet(bytes.fromhex(VECTORS["fleetFile"]["file"]), pinned_owner=None)
    headers = RawHeaders(
        fleet=bytes.fromhex(case["header"]),
        sig=None if case["sig"] is None else bytes.fromhex(case["sig"]),
        fleet_id=case["fleetIdHint"],
        has_cc=case["cc"],
    )
    judged: Judgement | Parsed = parse_delivery(headers, bytes.fromhex(case["body"]), body_limit=1000)
    if isinstance(judged, Parsed):
        known = None if case["known"] is None else bytes.fromhex(case["known"])
        judged = judge(judged, queue=case["queue"], known=known, now=case["now"], by=trusted)
    match judged:
        case Refusal(reason=reason):
            assert reason == case["result"]
        case Duplicate():
            assert case["result"] == "duplicate"
        case _:
            assert isinstance(judged, VerifiedEnvelope)
            assert case["result"] == ""


def test_the_frozen_deliveries_reach_every_reason() -> None:
    assert set(REFUSAL_REASONS) <= {case["result"] for case in VECTORS["deliveries"]}


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"problem": "a length runs past the end"}, "header table: a length runs past the end"),
        ({"fleet": None}, "the header `fleet` is missing"),
        ({"sig": None}, "the header `sig` is missing"),
        ({"fleet": b"\xa0\0"}, "header: bytes are left over at byte 1"),
        ({"proof": b"\0\0\0\1"}, "proof: for a batch of 1, not 2 to 256"),
    ],
)
def test_malformed(changes: dict[str, Any], detail: str) -> None:
    good = RawHeaders(fleet=encode_envelope(envelope()), sig=bytes(64))
    refusal = refused(parse_delivery(msgspec.structs.replace(good, **changes), b"body", body_limit=4))
    assert (refusal.reason, refusal.detail) == ("malformed", detail)
    assert (refusal.envelope, refusal.signature_good) == (None, False)


def test_what_is_malformed_still_tells_its_host_and_trace_for_the_log() -> None:
    headers = RawHeaders(fleet=encode_envelope(envelope()), sig=None)
    refusal = refused(parse_delivery(headers, b"", body_limit=4))
    assert (refusal.host, refusal.trace_id) == ("alpha", "0af7651916cd43dd8448eb211c80319c")
    assert refusal.leaf is not None


def test_an_oversize_body_is_malformed_before_it_is_hashed() -> None:
    headers = RawHeaders(fleet=encode_envelope(envelope()), sig=bytes(64))
    refusal = refused(parse_delivery(headers, b"12345", body_limit=4))
    assert (refusal.reason, refusal.detail, refusal.leaf) == ("malformed", "body: 5 bytes, the most is 4", None)


# --- the order of checks ------------------------------------------------------------------------

_FAULTS: Sequence[tuple[str, dict[str, Any]]] = [
    ("wrong-fleet", {"hint": "dev", "by": signer(fleet_id=FleetId("dev"))}),
    ("unknown-host", {"host": HostId("delta")}),
    ("revoked", {"host": BETA, "key_gen": 2}),
    ("key-generation", {"key_gen": 9}),
    ("signature", {"by": signer(BETA)}),
    ("wrong-host", {"sender": WORKER}),
    ("wrong-recipient", {"to": LEAD}),
    ("unknown-kind", {"kind": "FLEET"}),
    ("not-authorised", {"grants": frozenset()}),
    ("conflict", {"known": b"x" * 32}),
    ("expired", {"now": NOW + 10_000 + SKEW_MS + 1}),
]


@pytest.mark.parametrize("first", range(len(_FAULTS)), ids=[reason for reason, _ in _FAULTS])
def test_the_first_fault_in_order_gives_the_reason(first: int) -> None:
    """A message with this fault and every later one that can be had together with it is refused for this one."""
    reason, _ = _FAULTS[first]
    faults: dict[str, Any] = {}
    for _, fault in _FAULTS[first:]:
        faults = fault | faults
    changes = {name: faults[name] for name in ("host", "key_gen", "sender", "to", "kind") if name in faults}
    item = delivered(envelope(**changes), by=faults.get("by"), hint=faults.get("hint", "prod"))
    hosts = (
        {name: msgspec.structs.replace(host, grants=faults["grants"]) for name, host in fleet().hosts.items()}
        if ("grants" in faults)
        else fleet().hosts
    )
    trusted = fleet(hosts=hosts)
    refusal = refused(judge(item, known=faults.get("known"), now=faults.get("now", NOW), by=trusted))
    assert refusal.reason == reason
    assert refusal.signature_good == (REFUSAL_REASONS.index(reason) > REFUSAL_REASONS.index("signature"))
    assert refusal.envelope == item.envelope
    assert (refusal.leaf, refusal.host) == (item.leaf, item.envelope.host)


def test_a_known_message_is_a_duplicate_whatever_its_signature_or_todays_trust() -> None:
    item = delivered(envelope(), by=signer(BETA))
    nobody = fleet(hosts={}, revoked=frozenset({(ALPHA, 1)}))
    assert judge(item, known=item.leaf, by=nobody, now=NOW + 10**9) == Duplicate(item.envelope, item.leaf)


def test_wrong_fleet_names_both() -> None:
    refusal = refused(judge(delivered(envelope(), by=signer(fleet_id=FleetId("dev")), hint="dev")))
    assert (refusal.reason, refusal.detail) == ("wrong-fleet", "theirs dev, ours prod")
    # The hint is a peer's text: it is not repeated when it is no name.
    refusal = refused(judge(delivered(envelope(), by=signer(BETA), hint="\x1b[2J")))
    assert refusal.detail == "theirs no fleet's name, ours prod"


def test_the_unsigned_hint_alone_refuses_nothing() -> None:
    assert isinstance(judge(delivered(envelope(), hint="dev")), VerifiedEnvelope)


@pytest.mark.parametrize("length", [0, 63, 65])
def test_a_signature_of_a_wrong_length_is_an_ordinary_refusal(length: int) -> None:
    good = delivered(envelope())
    refusal = refused(judge(msgspec.structs.replace(good, sig=bytes(length))))
    assert (refusal.reason, refusal.detail) == ("signature", f"{length} bytes, not 64; alpha, key generation 1")


def test_only_its_own_host_speaks_for_a_roster_key() -> None:
    good, bad = delivered(presence("roster.alpha._gateway")), delivered(presence("roster.beta._gateway"))
    assert isinstance(judge(good, queue=good.envelope.to), VerifiedEnvelope)
    assert refused(judge(bad, queue=bad.envelope.to)).reason == "wrong-host"


def test_cc_is_refused() -> None:
    refusal = refused(judge(delivered(envelope(), cc=True)))
    assert (refusal.reason, refusal.detail, refusal.signature_good) == ("wrong-recipient", "sent with CC or BCC", True)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (NOW - SKEW_MS, ""),
        (NOW - SKEW_MS - 1, "future"),
        (NOW + 10_000 + SKEW_MS, ""),
        (NOW + 10_000 + SKEW_MS + 1, "expired"),
    ],
)
def test_thirty_seconds_of_skew_and_not_one_more(now: int, reason: str) -> None:
    judgement = judge(delivered(envelope()), now=now)
    assert (judgement.reason if isinstance(judgement, Refusal) else "") == reason


def test_what_became_of_our_own_message_is_heard_whatever_our_clock_says() -> None:
    notice = delivered(envelope(kind=Kind.INJECTED, to="beta", re=reply_id(), depth=None))
    assert isinstance(judge(notice, queue="beta", now=NOW - 14 * 86_400_000), VerifiedEnvelope)


# --- batches and trust --------------------------------------------------------------------------


def batch(count: int, by: Signer) -> list[Parsed]:
    sent = [(encode_envelope(envelope()), f"body {number}".encode()) for number in range(count)]
    read = [
        parse_delivery(RawHeaders(fleet=header, sig=sig, proof=proof or None), body, body_limit=100)
        for (header, body), (sig, proof) in zip(sent, by.sign(sent), strict=True)
    ]
    return [item for item in read if isinstance(item, Parsed)]


def count_signatures(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many signatures each call verified."""
    calls: list[int] = []

    def counting(items: Sequence[tuple[bytes, bytes, bytes]]) -> list[bool]:
        if items:
            calls.append(len(items))
        return _accel.verify_many(items)

    monkeypatch.setattr(signing, "verify_many", counting)
    return calls


@pytest.mark.parametrize("count", [1, 2, 3, 255, 256])
def test_a_batch_is_verified_by_one_signature_and_each_of_it_alone(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_signatures(monkeypatch)
    items = batch(count, signer())
    assert len(items) == count
    judged = Verifier(fleet()).judge(items, [Queue()] * count, [None] * count, NOW)
    assert all(isinstance(one, VerifiedEnvelope) for one in judged)
    assert calls == [1]
    assert isinstance(judge(items[-1]), VerifiedEnvelope)


def test_a_batch_is_at_most_256_messages() -> None:
    with pytest.raises(ValueError, match="1 to 256 leaves, not 257"):
        batch(257, signer())


def test_one_spoilt_message_costs_only_itself() -> None:
    items = batch(4, signer())
    spoilt = msgspec.structs.replace(items[1], sig=bytes(64))
    judged = Verifier(fleet()).judge([items[0], spoilt, *items[2:]], [Queue()] * 4, [None] * 4, NOW)
    assert [type(one) for one in judged] == [VerifiedEnvelope, Refusal, VerifiedEnvelope, VerifiedEnvelope]


def test_good_signatures_are_remembered_bad_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_signatures(monkeypatch)
    good, bad = delivered(envelope()), delivered(envelope(), by=signer(BETA))
    verifier = Verifier(fleet())
    for _ in range(2):
        verifier.judge([good, bad], [Queue()] * 2, [None] * 2, NOW)
    assert calls == [2, 1]


def test_revocation_counts_from_the_next_message_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_signatures(monkeypatch)
    item, verifier = delivered(envelope()), Verifier(fleet())
    assert isinstance(verifier.judge([item], [Queue()], [None], NOW)[0], VerifiedEnvelope)
    verifier.set_fleet(fleet(revoked=frozenset({(ALPHA, 1)})))
    assert refused(verifier.judge([item], [Queue()], [None], NOW)[0]).reason == "revoked"
    verifier.set_fleet(fleet())
    assert isinstance(verifier.judge([item], [Queue()], [None], NOW)[0], VerifiedEnvelope)
    assert calls == [1, 1]


def test_a_remembered_signature_is_worth_nothing_under_another_key() -> None:
    item, verifier = delivered(envelope()), Verifier(fleet())
    verifier.judge([item], [Queue()], [None], NOW)
    other = FleetHost(ALPHA, (HostKey(ALPHA, 1, signer(BETA).public_key),))
    verifier.set_fleet(fleet(hosts={ALPHA: other}))
    assert refused(verifier.judge([item], [Queue()], [None], NOW)[0]).reason == "signature"


def test_both_generations_of_a_rotation_are_valid() -> None:
    second = delivered(envelope(key_gen=2), by=signer(ALPHA, 2))
    assert isinstance(judge(second), VerifiedEnvelope)


# --- only the verifier --------------------------------------------------------------------------


def test_nothing_else_makes_a_verified_envelope() -> None:
    item = delivered(envelope())
    parts = (item.envelope, item.header, item.body, item.sig, item.proof, item.leaf)
    with pytest.raises(ProtocolMisuse):
        VerifiedEnvelope(*parts, seal=None)
    with pytest.raises(TypeError):
        VerifiedEnvelope(*parts)  # type: ignore[call-arg]
    good = judge(item)
    assert isinstance(good, VerifiedEnvelope)
    with pytest.raises(ProtocolMisuse):
        msgspec.structs.replace(good, body=b"other")


def test_a_neighbours_message_has_the_same_leaf_and_no_signature() -> None:
    sent: Envelope = envelope()
    item = delivered(sent)
    neighbour = VerifiedEnvelope.of_neighbour(sent, item.header, item.body)
    assert (neighbour.leaf, neighbour.sig, neighbour.proof) == (item.leaf, b"", b"")


def test_sign_is_what_the_specification_says() -> None:
    case = VECTORS["batches"][2]
    by = Signer(FLEET_ID, ALPHA, 1, bytes.fromhex(case["seed"]))
    messages = [(bytes.fromhex(one["header"]), bytes.fromhex(one["body"])) for one in case["messages"]]
    assert by.sign(messages) == [(bytes.fromhex(case["sig"]), bytes.fromhex(one["proof"])) for one in case["messages"]]
    assert by.public_key == bytes.fromhex(case["publicKey"])
    assert WallMs(NOW) == NOW
