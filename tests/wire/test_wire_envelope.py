"""Envelopes: every kind both ways, every field checked, ids and lifetimes."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest

from fleettrio._accel import decode_header, encode_header
from fleettrio.errors import MalformedEnvelope, UnsupportedVersion
from fleettrio.ids import WallMs
from fleettrio.wire.envelope import (
    CONTROL_KINDS,
    MESSAGE_KINDS,
    NOTICE_KINDS,
    Envelope,
    Kind,
    decode_envelope,
    default_lifetime_ms,
    encode_envelope,
    longest_lifetime_ms,
)
from fleettrio.wire.gids import (
    GATEWAY_SALT,
    MsgIds,
    derive_gid,
    is_fleet_id,
    is_gid,
    is_msg_id,
    is_name,
    msg_id_wall_ms,
    new_msg_id,
    solo_fleet_id,
)
from fleettrio.wire.kinds import span_text
from tests.vectors.load import VECTORS, named
from tests.wire.makers import ALPHA, LEAD, NOW, WORKER, envelope, presence, reply_id


def of_kind(kind: str) -> Envelope:
    """A whole envelope of any kind."""
    if kind == Kind.PRESENCE:
        return presence("roster.alpha._gateway")
    needs: dict[str, Any] = {
        "SPAWN": {"spawn_id": WORKER},
        "STOP": {"spawn_id": WORKER, "depth": None},
        "BROADCAST": {"to": "broadcast.reviewers"},
        "COORD": {"to": "lead.lead-7"},
    }
    changes = dict(needs.get(kind, {}))
    if kind in CONTROL_KINDS | NOTICE_KINDS:
        changes["to"] = "beta"
    if kind in NOTICE_KINDS | {Kind.REPLY, Kind.ANSWER}:
        changes["re"] = reply_id()
    if kind in (Kind.ASK, Kind.ANSWER, Kind.NO_WAITER, Kind.TOO_LATE, Kind.ABANDONED):
        changes["turn_id"] = "turn-1"
    return envelope(kind=kind, **changes)


@pytest.mark.parametrize("kind", sorted(Kind))
def test_every_kind_comes_back_as_it_was(kind: str) -> None:
    sent = of_kind(kind)
    assert decode_envelope(encode_envelope(sent)) == sent


def test_the_kinds_are_those_of_the_specification() -> None:
    assert len(Kind) == len(MESSAGE_KINDS) + len(CONTROL_KINDS) + len(NOTICE_KINDS) + 1 == 25
    assert not MESSAGE_KINDS & CONTROL_KINDS | MESSAGE_KINDS & NOTICE_KINDS | CONTROL_KINDS & NOTICE_KINDS


def test_all_fields_come_back_and_unknown_ones_are_kept() -> None:
    sent = envelope(
        re=reply_id(),
        when="turn",
        on_stale="drop",
        priority=9,
        intent="handoff",
        wants_reply=False,
        auto=True,
        causal=b"\xa0",
        claim="beta:issue-149",
        supersedes=reply_id(),
        extra={"later": 1, "text": "x"},
    )
    assert decode_envelope(encode_envelope(sent)) == sent


@pytest.mark.parametrize("case", named("headers"))
def test_frozen_headers_that_are_envelopes(case: dict[str, Any]) -> None:
    if "kind" not in case["fields"]:
        return
    header = bytes.fromhex(case["canonical"])
    assert encode_envelope(decode_envelope(header)) == header


@pytest.mark.parametrize("case", named("refusedEnvelopes"))
def test_refused_envelopes(case: dict[str, Any]) -> None:
    with pytest.raises((MalformedEnvelope, UnsupportedVersion)) as caught:
        decode_envelope(bytes.fromhex(case["bytes"]))
    assert caught.value.reason == case["reason"]


ALWAYS = ["kind", "msgId", "traceId", "from", "fromSalt", "to", "host", "keyGen", "ts", "expiresAt"]


@pytest.mark.parametrize("name", ALWAYS)
def test_each_field_of_all_must_be_there_and_of_its_type(name: str) -> None:
    fields = decode_header(encode_envelope(envelope()))
    without = {key: value for key, value in fields.items() if key != name}
    with pytest.raises(MalformedEnvelope, match=f"field '{name}' is missing"):
        decode_envelope(encode_header(without))
    with pytest.raises(MalformedEnvelope, match=f"field '{name}' must be"):
        decode_envelope(encode_header(fields | {name: True}))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"msg_id": ""}, "field 'msgId' must be a UUID version 7 in lower case"),
        ({"depth": None}, "field 'depth' is missing; SEND needs it"),
        ({"to": "beta"}, "field 'to' must be a gid for SEND"),
        ({"expires_at": WallMs(NOW - 1)}, "field 'expiresAt' must not be before 'ts'"),
        ({"extra": {"kind": "SEND"}}, "field 'kind' has an attribute of its own and cannot be extra"),
        ({"extra": {"nested": [1]}}, "header: field 'nested' is not int, text, bytes or bool"),
        ({"claim": "x" * 200, "extra": {"big": bytes(4000)}}, "header: 4482 bytes, the most is 4096"),
    ],
)
def test_what_we_encode_is_checked_as_well(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(MalformedEnvelope) as caught:
        encode_envelope(envelope(**changes))
    assert str(caught.value) == text


def test_an_unknown_kind_is_decoded_so_that_its_sender_can_be_told() -> None:
    sent = envelope(kind="FLEET", to="beta")
    assert decode_envelope(encode_envelope(sent)) == sent


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"intent": "warning"}, False),
        ({"intent": "warning", "wants_reply": True}, True),
        ({"wants_reply": False}, False),
        ({"kind": Kind.BROADCAST}, False),
        ({"kind": Kind.REPLY}, False),
    ],
)
def test_who_expects_a_reply(changes: dict[str, Any], expected: bool) -> None:
    assert envelope(**changes).expects_reply is expected


# --- lifetimes ----------------------------------------------------------------------------------

_S, _MIN, _H, _D = 1000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("kinds", "default", "most"),
    [
        ("PRESENCE", 15 * _S, 60 * _S),
        ("PING PONG QUERY TRACE TRACED ROSTER_ASK ROSTER RPC", 30 * _S, 5 * _MIN),
        ("RECALL PAUSE REPLY COORD INJECTED FAILED NO_WAITER TOO_LATE ABANDONED OUTCOME", 14 * _D, 14 * _D),
        ("ASK ANSWER SPAWN STOP", 10 * _MIN, _H),
        ("BROADCAST", _H, 24 * _H),
        ("SEND", 8 * _H, 14 * _D),
    ],
)
def test_lifetimes(kinds: str, default: int, most: int) -> None:
    for kind in kinds.split():
        assert (default_lifetime_ms(kind), longest_lifetime_ms(kind)) == (default, most)
        sent = of_kind(kind)
        last = msgspec.structs.replace(sent, expires_at=WallMs(NOW + most))
        assert decode_envelope(encode_envelope(last)).expires_at == NOW + most
        late = msgspec.structs.replace(sent, expires_at=WallMs(NOW + most + 1))
        with pytest.raises(MalformedEnvelope, match="expiresAt"):
            encode_envelope(late)


def test_lifetimes_of_a_send_depend_on_when_and_on_who_takes() -> None:
    assert default_lifetime_ms("SEND", "now") == default_lifetime_ms("SEND", "now", "pull") == 10 * _MIN
    assert default_lifetime_ms("SEND", "idle", "pull") == 14 * _D
    assert longest_lifetime_ms("SEND", "now") == 24 * _H


# --- ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", VECTORS["gids"], ids=lambda case: f"{case['who']}@{case['host']} of {case['fleetId']}")
def test_frozen_gids(case: dict[str, str]) -> None:
    gid = derive_gid(case["fleetId"], case["host"], bytes.fromhex(case["salt"]))
    assert gid == case["gid"]
    assert is_gid(gid)


def test_a_salt_has_16_bytes() -> None:
    with pytest.raises(ValueError, match="16 bytes, not 15"):
        derive_gid("prod", ALPHA, GATEWAY_SALT[1:])


def test_message_ids_are_version_7_of_their_time_and_entropy() -> None:
    first, later = new_msg_id(NOW, b"\xff" * 10), new_msg_id(NOW + 1, bytes(10))
    assert first == "01a3185c-5000-7fff-bfff-ffffffffffff"
    assert is_msg_id(first)
    assert is_msg_id(later)
    assert first < later
    assert new_msg_id(NOW, bytes(range(16))) == new_msg_id(NOW, bytes(range(10)))
    with pytest.raises(ValueError, match="entropy"):
        new_msg_id(NOW, bytes(9))


def test_ids_made_in_one_millisecond_are_in_the_order_of_their_making() -> None:
    made, entropy = MsgIds(), b"\xff" * 10
    moments = [NOW] * 4_000 + [NOW + 1] * 300 + [NOW - 5] * 2
    ids = [made.new(wall, bytes(2) + os.urandom(8)) for wall in moments]
    assert all(is_msg_id(one) and msg_id_wall_ms(one) == wall for one, wall in zip(ids, moments, strict=True))
    assert ids[:4_300] == sorted(ids[:4_300])
    assert ids[4_300] < ids[4_301] < ids[0], "a clock that was set back is the sender's word"
    assert len({made.new(NOW, entropy[:2] + os.urandom(8)) for _ in range(5_000)}) == 5_000


@pytest.mark.parametrize("name", ["a", "worker-1", "0", "x" * 32])
def test_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "-a", "A", "a_b", "ä", "x" * 33, "a\n", "human", "all", "last", "a.b", "٣"])
def test_no_names(name: str) -> None:
    assert not is_name(name)


def test_other_ids_and_their_syntax() -> None:
    solo = solo_fleet_id(bytes(range(8)))
    assert solo == "solo-0001020304050607"
    assert is_fleet_id(solo)
    assert not is_fleet_id("x" * 64)
    assert not is_gid(LEAD.upper())
    assert not is_gid(LEAD + "\n")
    assert not is_msg_id(LEAD)
    with pytest.raises(ValueError, match="entropy"):
        solo_fleet_id(bytes(7))


@pytest.mark.parametrize(
    ("span_ms", "said"),
    [(86_400_000, "1 d"), (1_209_600_000, "14 d"), (3_600_000, "1 h"), (90_000, "90 s")],
)
def test_a_span_is_said_in_the_largest_unit_that_fits(span_ms: int, said: str) -> None:
    assert span_text(span_ms) == said
