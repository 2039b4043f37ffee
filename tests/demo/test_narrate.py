"""What the demo says: coloured for a person, plain for a pipe, and never silent for long."""

from __future__ import annotations

import io
import re

import pytest

from fleettrio.demo import narrate
from fleettrio.demo.narrate import Narrator, TooLate


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def tell(out: io.StringIO, env: dict[str, str]) -> str:
    narrator = Narrator(out, env)
    narrator.title("1/2  A story")
    narrator.passed(f"it went well: {narrator.id('9f31c2d4')}")
    narrator.failed("it did not\nand this is why")
    narrator.plain("demo: 1 of 2 stories passed")
    return out.getvalue()


def test_a_terminal_gets_colours_and_an_exact_last_line() -> None:
    said = tell(Terminal(), {})
    assert "\x1b[" in said
    assert said.endswith("\ndemo: 1 of 2 stories passed\n")


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()], ids=["pipe", "NO_COLOR"])
def test_a_pipe_and_a_person_without_colours_get_plain_text(out: io.StringIO) -> None:
    said = tell(out, {"NO_COLOR": "1"})
    assert "\x1b" not in said
    assert said.splitlines() == [
        "",
        "1/2  A story",
        "   ✓ it went well: 9f31c2d4",
        "   ✗ it did not",
        "     and this is why",
        "demo: 1 of 2 stories passed",
    ]


def test_what_takes_long_says_so_in_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrate, "QUIET_S", 0.01)
    out = io.StringIO()
    assert Narrator(out, {}).until("the broker starts", lambda: "…" in out.getvalue(), 90.0)
    assert re.match(r"   … the broker starts \(\d+ s\)\n", out.getvalue())


def test_on_a_terminal_the_live_line_makes_room_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrate, "QUIET_S", 0.01)
    out = Terminal()
    narrator = Narrator(out, {"NO_COLOR": "1"})
    narrator.until("the broker starts", lambda: "…" in out.getvalue(), 90.0)
    narrator.say("it is there")
    assert out.getvalue().endswith("\r\x1b[K   it is there\n")


def test_what_does_not_come_is_named() -> None:
    with pytest.raises(TooLate, match=r"not within 0\.01 s: the worker answers"):
        Narrator(io.StringIO(), {}).until("the worker answers", lambda: None, 0.01)
