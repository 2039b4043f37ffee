"""A message in little room is cut, and says where the rest is."""

from __future__ import annotations

import msgspec
import pytest

from fleettrio.local.frame import MARK, FrameFacts, frame, unframe

FACTS = FrameFacts(
    sender="lead@alpha",
    is_person=False,
    verified=True,
    kind="SEND",
    intent="directive",
    age_ms=0,
    short_id="7f3a9c",
    nonce="0a1b2c3d",
    wants_reply=True,
)


def test_what_fits_is_whole() -> None:
    body = "one\ntwo"
    assert frame(FACTS, body, room=9_000) == frame(FACTS, body)


@pytest.mark.parametrize("body", ["x" * 20_000, "a\n" * 20_000, "a line\n" * 3_000, "x" * 8_900])
def test_what_does_not_fit_is_cut_to_the_room_and_says_how_to_read_the_rest(body: str) -> None:
    text = frame(FACTS, body, room=9_000).framed
    assert len(text) <= 9_000
    assert "[fleettrio 0a1b2c3d] cut here · whole: fleettrio show 7f3a9c --framed" in text.split("\n")
    assert body.startswith(unframe(text))
    assert text.split("\n")[-1].startswith("[fleettrio 0a1b2c3d] end of 7f3a9c")


def test_without_any_room_the_frame_goes_alone() -> None:
    lines = frame(msgspec.structs.replace(FACTS, wants_reply=False), "body", room=0).framed.split("\n")
    assert [line for line in lines if line.startswith(MARK)] == []
    assert len(lines) == 4
