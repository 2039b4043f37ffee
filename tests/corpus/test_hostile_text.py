"""The hostile bodies through everything that makes text: sanitiser, one line, frame, digest, nudge, log."""

from __future__ import annotations

import io
import json

import pytest

from fleettrio.config import LogSection
from fleettrio.core.actions import Nudge
from fleettrio.ids import Gid
from fleettrio.local.digest import DIGEST_LIMIT, DigestFacts, digest
from fleettrio.local.frame import MARK, FrameFacts, frame
from fleettrio.local.sanitise import clean, one_line
from fleettrio.observe import get_logger, set_up_log
from fleettrio.tasks.nudge import nudge_text
from tests.corpus.hostile import HOSTILE, frame_lookalikes, leaks

EACH = pytest.mark.parametrize("name", HOSTILE)
NONCE = "5f3a9c21"


def facts(**changes: object) -> FrameFacts:
    known = {
        "sender": "worker@beta",
        "is_person": False,
        "verified": True,
        "kind": "SEND",
        "intent": "directive",
        "age_ms": 0,
        "short_id": "9f31c2d4",
        "nonce": NONCE,
        "wants_reply": True,
    }
    return FrameFacts(**{**known, **changes})  # type: ignore[arg-type]


def unframed_lookalikes(text: str) -> list[str]:
    """Lines that pass for the frame's and are not: they neither bear its nonce nor are marked as the body's."""
    lines = [line for line in text.split("\n") if not line.startswith(f"[fleettrio {NONCE}] ")]
    return frame_lookalikes(line for line in lines if not line.startswith(MARK))


def test_there_are_enough_of_them_and_the_judge_sees_what_they_are() -> None:
    assert len(HOSTILE) >= 30
    shown = {name: body.decode("utf-8", "replace") for name, body in HOSTILE.items()}
    harmless = {name for name, text in shown.items() if not leaks(text) and not frame_lookalikes(text.splitlines())}
    assert harmless <= {
        "slash-command",
        "shell-and-memory",
        "fake-listing",
        "fake-failure",
        "hook-output",
        "roles",
        "mcp-result",
        "combining-flood",
        "lone-surrogates",
        "truncated",
        "markup",
        "json-breaker",
        "utf-16",
        "latin-1",
        "overlong",
    }


@EACH
def test_what_is_shown_of_it_is_words_alone(name: str) -> None:
    assert leaks(clean(HOSTILE[name])) == []
    assert leaks(one_line(HOSTILE[name], 200), lines=False) == []


@EACH
@pytest.mark.parametrize("room", [None, 9_000])
def test_in_the_frame_every_line_is_the_daemons_or_marked_as_the_bodys(name: str, room: int | None) -> None:
    text = frame(facts(), HOSTILE[name], room)
    assert leaks(text.framed) == []
    assert unframed_lookalikes(text.framed) == []
    first, *middle, last = text.framed.split("\n")
    assert first.startswith(f"[fleettrio {NONCE}] message 9f31c2d4 from worker@beta (verified)")
    assert last.startswith(f"[fleettrio {NONCE}] end of 9f31c2d4")
    assert all(line.startswith((MARK, f"[fleettrio {NONCE}] ")) for line in middle)
    assert room is None or len(text.framed) <= room


@EACH
@pytest.mark.parametrize("field", ["sender", "intent", "kind", "short_id", "stale", "when"])
def test_what_a_peer_could_put_into_the_frame_itself_stays_on_its_line(name: str, field: str) -> None:
    text = frame(facts(**{field: HOSTILE[name].decode("utf-8", "replace")}), b"the body")
    assert leaks(text.framed) == []
    assert leaks(text.notice, lines=False) == []
    assert unframed_lookalikes(text.framed) == []
    body = [line for line in text.framed.split("\n") if line.startswith(MARK)]
    assert body == [f"{MARK}the body"]


@EACH
def test_a_digest_and_a_nudge_hold_no_more_than_words(name: str) -> None:
    word = HOSTILE[name].decode("utf-8", "surrogateescape")
    shown = digest(
        DigestFacts(
            address=word,
            takes="push",
            failed=[word],
            around=[(word, word)],
            waiting=[(word, 3)],
            unanswered=[(word, word, word)],
            nonce=NONCE,
        )
    )
    assert leaks(shown) == []
    assert unframed_lookalikes(shown) == []
    assert len(shown) <= DIGEST_LIMIT
    line = nudge_text(Nudge(Gid("g"), ((word, 2),))).framed
    assert leaks(line, lines=False) == []
    assert line.count("\n") == 0


@EACH
@pytest.mark.parametrize("form", ["json", "console"])
def test_in_the_log_it_is_one_line_of_words(name: str, form: str) -> None:
    stream = io.StringIO()
    set_up_log(LogSection(format=form), stream, clean=lambda text: one_line(text, 500))  # type: ignore[arg-type]
    word = HOSTILE[name].decode("utf-8", "surrogateescape")[:2_000]
    get_logger("corpus").error("refused", reason=word, detail=word, peer=word)
    (written,) = stream.getvalue().removesuffix("\n").split("\n")
    assert leaks(written, lines=False) == []
    if form == "json":
        assert json.loads(written)["event"] == "refused"
