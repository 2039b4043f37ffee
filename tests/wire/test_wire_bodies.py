"""Bodies between gateways: each type both ways, and what is refused."""

from __future__ import annotations

from typing import Any

import cbor2
import msgspec
import pytest

from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import Leaf
from fleettrio.wire.bodies import (
    EntityPresence,
    Failed,
    Fate,
    GatewayPresence,
    Injected,
    Outcome,
    PauseBody,
    PingBody,
    PongBody,
    Question,
    QuestionItem,
    RosterPart,
    RpcBody,
    RpcCall,
    SpawnBody,
    StopBody,
    TracedBody,
    TurnNotice,
)
from fleettrio.wire.records import MAX_BODY
from tests.wire.makers import ALPHA, BETA, FLEET_ID, LEAD, LEAD_SALT, NOW, WORKER, reply_id

LEAF = Leaf(b"\5" * 32)
ENTITY = EntityPresence(
    gid=LEAD,
    salt=LEAD_SALT,
    name="lead",
    takes="push",
    groups=("reviewers",),
    status="idle",
    since=NOW,
    full=True,
    rev=3,
)
FATE = Fate(msg_id=reply_id(), gid=WORKER, leaf=LEAF, state="failed", reason="unroutable", at=NOW)
BODIES: list[Any] = [
    GatewayPresence(epoch=2, seq=7, roster_rev=1, trust_rev=3, entities=0, kinds=("SEND",), version="0.1.0", clock=NOW),
    ENTITY,
    RosterPart(roster_rev=1, part=0, parts=1, entities=(ENTITY, ENTITY)),
    RosterPart(roster_rev=1, part=0, parts=1, entities=()),
    Injected(gid=WORKER, leaf=LEAF, state="confirmed", via="tmux", at=NOW),
    Failed(gid=WORKER, leaf=LEAF, reason="refused", detail="wrong-host at beta", at=NOW),
    Outcome(fates=(FATE, FATE)),
    Question(items=(QuestionItem(msg_id=reply_id(), gid=WORKER, leaf=LEAF, expires_at=NOW),)),
    TurnNotice(gid=WORKER, reason="backlog", at=NOW),
    PingBody(at=NOW),
    PongBody(
        at=NOW,
        version="0.1.0",
        offset=-12,
        key_gen=1,
        trust_rev=3,
    ),
    SpawnBody(profile="reviewer", name="r1", groups=("a",), cwd="/srv", worktree=True, salt=LEAD_SALT),
    StopBody(gid=WORKER, reason="done"),
    PauseBody(target="all", on=True),
    TracedBody(rows=({"at": NOW, "what": "injected"},), cut=False),
    RpcBody(call=RpcCall(name="claim", args={"key": "beta:issue-149"})),
    RpcBody(result={"fence": 1}),
    RpcBody(error="no such key"),
    RpcBody(cancel=True),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_every_body_comes_back_and_is_canonical(body: Any) -> None:
    data = body.to_bytes()
    assert type(body).from_bytes(data) == body
    assert cbor2.dumps(cbor2.loads(data), canonical=True) == data


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_unknown_keys_are_ignored(body: Any) -> None:
    later = cbor2.dumps(cbor2.loads(body.to_bytes()) | {"zLater": [{"a": 1}]}, canonical=True)
    assert type(body).from_bytes(later) == body


def test_names_on_the_wire_and_absent_defaults() -> None:
    assert cbor2.loads(
        PongBody(
            at=NOW,
            version="1",
            offset=0,
            key_gen=1,
            trust_rev=3,
        ).to_bytes()
    ) == {
        "at": NOW,
        "version": "1",
        "offset": 0,
        "keyGen": 1,
        "trustRev": 3,
    }
    assert "via" not in cbor2.loads(Injected(gid=WORKER, leaf=LEAF, state="confirmed", at=NOW).to_bytes())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "body: not CBOR"),
        (b"\x80", "body: not a map"),
        (bytes(MAX_BODY + 1), "body: 262145 bytes, the most is 262144"),
        (bytes.fromhex("a16261741800"), "body: not canonical CBOR"),
        (bytes.fromhex("a162617400") + b"\0", "body: not canonical CBOR"),
        (bytes.fromhex("bf62617400ff"), "indefinite or reserved length"),
        (bytes.fromhex("a1626174f6"), "something other than maps"),
        (bytes.fromhex("a1626174c100"), "something other than maps"),
        (bytes.fromhex("a1626174d81d00"), "something other than maps"),
        (bytes.fromhex("a1626174fb3ff0000000000000"), "something other than maps"),
        (bytes.fromhex("a26261740062617400"), "body: not CBOR"),
        (bytes.fromhex("a2410000626174" + "00"), "a key is not text"),
        (bytes.fromhex("a0"), "body: `at` is missing"),
        (bytes.fromhex("a162617420"), "body: `at` must be a number from 0"),
        (bytes.fromhex("a1626174f5"), "body: `at` must be a number from 0"),
        (cbor2.dumps({"at": 0, "deep": [[[[1]]]]}, canonical=True), "body: not CBOR"),
    ],
)
def test_refused_bodies(data: bytes, text: str) -> None:
    with pytest.raises(MalformedEnvelope) as caught:
        PingBody.from_bytes(data)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (Injected(gid=WORKER, leaf=LEAF, state="seen", at=NOW), "`state` must be one of confirmed, unconfirmed"),
        (Injected(gid=WORKER, leaf=Leaf(b""), state="confirmed", at=NOW), "`leaf` must be 32 bytes"),
        (StopBody(gid="worker"), "`gid` must be a gid"),  # type: ignore[arg-type]
        (Outcome(fates=(FATE,) * 257), "`fates` must be a list of at most 256"),
        (Outcome(fates=(Fate(msg_id="x", gid=WORKER, leaf=LEAF, state="absent", at=NOW),)), "`msgId` must be a msgId"),  # type: ignore[arg-type]
        (msgspec.structs.replace(ENTITY, name="\x1b[2J"), "`name` must be an agent's name"),
        (msgspec.structs.replace(ENTITY, status="idle\n"), "`status` must be at most 64 printable characters"),
        (RpcBody(), "exactly one of"),
        (RpcBody(error="x", cancel=True), "exactly one of"),
        (PauseBody(target="x" * 129, on=True), "`target` must be text of at most 128 characters"),
    ],
)
def test_what_we_would_not_take_we_do_not_send(body: Any, text: str) -> None:
    with pytest.raises(MalformedEnvelope) as caught:
        body.to_bytes()
    assert text in str(caught.value)


def test_an_entity_lives_where_its_salt_says() -> None:
    assert ENTITY.lives_on(FLEET_ID, ALPHA)
    assert not ENTITY.lives_on(FLEET_ID, BETA)
