"""Envelopes read and written by both implementations: the same record, the same bytes, or the same error."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fleettrio import _pure
from fleettrio.errors import MalformedEnvelope, UnsupportedVersion
from fleettrio.wire import envelope as wire
from fleettrio.wire.envelope import Envelope, Kind
from fleettrio.wire.gids import GATEWAY_SALT, derive_gid, new_msg_id
from tests.accel.twins import TWINS

LAYOUTS: list[Any] = [
    twin.Layout(
        Envelope, wire.VERSION, wire._FIELDS, wire._ALWAYS, {kind: wire._rule(kind) for kind in Kind}, wire._rule("")
    )
    for twin in TWINS
]
GID, MSG_ID = derive_gid("prod", "alpha", bytes(16)), new_msg_id(1_800_000_000_000, bytes(10))
NOW = 1_800_000_000_000

WORDS = (
    *(
        "KIND",
        "alpha",
        "human",
        "-a",
        "a-",
        "Alpha",
        "beta_",
        "é",
        "broadcast.all",
        "broadcast.x",
        "broadcast.",
        "lead.x",
    ),
    *(
        "lead.all",
        "roster.alpha._gateway",
        "roster.alpha",
        "roster..x",
        ".",
        "inbox.x",
        "host.x",
        "idle",
        "turn",
        "now",
    ),
    *("now", "broadcast.", "note", "drop", "directive", "warning", "0" * 32, "0" * 31 + "g"),
)
words = st.sampled_from([
    *Kind, *WORDS, "", "\n", "\x7f", "\u2028", GID, GID.upper(), MSG_ID, f"roster.alpha.{GID}",
    *("x" * size for size in (64, 65, 200, 201)), "ö" * 64,
])  # fmt: skip
numbers = st.sampled_from(
    [
        *(-1, 0, 1, 9, 10, 23, 24, 2**16, 2**16 + 1, 2**31, 2**31 + 1, NOW, NOW + 1, 2**53, 2**64 - 1),
    ]
)
values = words | numbers | st.booleans() | st.binary(max_size=17) | st.sampled_from([bytes(16), b"\1", bytes(4090)])

good: dict[str, st.SearchStrategy[Any]] = {
    "v": st.just(1),
    "kind": st.sampled_from([*Kind, "KIND"]).map(str),
    "msgId": st.just(MSG_ID),
    "traceId": st.sampled_from(["0af7651916cd43dd8448eb211c80319c"]),
    "from": st.just(GID),
    "fromSalt": st.sampled_from([GATEWAY_SALT, b"\3" * 16]),
    "to": st.sampled_from([GID, "beta", "broadcast.all", "lead.x", "roster.alpha._gateway"]),
    "host": st.just("alpha"),
    "keyGen": st.integers(1, 300),
    "ts": st.just(NOW),
    "expiresAt": st.sampled_from([NOW, NOW + 1000, NOW + 3_600_000, NOW + 86_400_001, NOW + 14 * 86_400_000 + 1]),
}
optional: dict[str, st.SearchStrategy[Any]] = {
    "re": st.just(MSG_ID),
    "turnId": st.sampled_from(["turn-1", "ö", "x" * 64]),
    "spawnId": st.just(GID),
    "depth": st.integers(0, 70_000),
    "when": st.sampled_from(["idle", "turn", "now"]),
    "onStale": st.sampled_from(["note", "drop"]),
    "priority": st.integers(0, 9),
    "intent": st.sampled_from(["directive", "handoff", "warning"]),
    "wantsReply": st.booleans(),
    "auto": st.booleans(),
    "causal": st.binary(min_size=1, max_size=300),
    "claim": st.sampled_from(["beta:issue-149", "x" * 200]),
    "supersedes": st.just(MSG_ID),
}


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """Mostly good; a few fields are left out, or are what they should not be, or unknown."""
    fields = draw(st.fixed_dictionaries(good, optional=optional))
    for name in draw(st.lists(st.sampled_from(sorted([*good, *optional, "later", "w"])), max_size=2)):
        if draw(st.booleans()):
            fields[name] = draw(values)
        else:
            fields.pop(name, None)
    try:
        header = bytearray(_pure.encode_header(fields))
    except MalformedEnvelope:
        return b""
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(header) - 1))
        header[at] = draw(st.integers(0, 255))
    return bytes(header[: draw(st.sampled_from([len(header), len(header), len(header) - 1]))])


def outcome(call: Any, *arguments: Any) -> tuple[str, object]:
    try:
        return "result", call(*arguments)
    except (MalformedEnvelope, UnsupportedVersion) as error:
        return type(error).__name__, str(error)


@settings(max_examples=600)
@given(headers())
@example(b"")
@example(bytes(5000))
@example(bytes.fromhex("bb8000000000000000"))
def test_any_header_is_read_alike(header: bytes) -> None:
    expected = outcome(LAYOUTS[0].read, header)
    for layout in LAYOUTS[1:]:
        assert outcome(layout.read, header) == expected
    if isinstance(record := expected[1], Envelope):
        for layout in LAYOUTS:
            assert layout.write(layout.read(header)) == header
        assert [type(value) for value in msgspec.structs.astuple(record)] == [
            type(value) for value in msgspec.structs.astuple(LAYOUTS[-1].read(header))
        ]


attributes = [name for name in Envelope.__struct_fields__ if name != "extra"]


@settings(max_examples=600)
@given(
    headers(),
    st.lists(
        st.tuples(st.sampled_from(attributes), values | st.none() | st.sampled_from([*Kind, 2**70, "\ud800", 1.5]))
    ),
    st.dictionaries(st.sampled_from(["v", "later", "kind", "x" * 24]), values | st.none(), max_size=2),
)
def test_any_record_is_written_alike(header: bytes, changes: list[tuple[str, Any]], extra: dict[str, Any]) -> None:
    _, made = outcome(LAYOUTS[0].read, header)
    if not isinstance(made, Envelope):
        return
    changed = msgspec.structs.replace(made, **dict(changes[:2]), extra=extra)
    expected = outcome(LAYOUTS[0].write, changed)
    for layout in LAYOUTS[1:]:
        assert outcome(layout.write, changed) == expected


@given(
    words
    | st.text(max_size=40)
    | st.from_regex(r"[0-9a-f-]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89a][0-9a-f]{3}-[0-9a-f]{12}")
)
@example("\ud800")
@example(f"{GID}\n")
@example(Kind.SEND)
def test_every_form_is_seen_alike(text: str) -> None:
    for name in ("is_gid", "is_key", "is_msg_id", "is_name", "is_trace_id", "is_word"):
        for twin in TWINS:
            assert getattr(twin, name)(text) is getattr(_pure, name)(text)
