"""What a screen says about an agent, for each harness that is shipped."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fleettrio.errors import ConfigError
from fleettrio.local.harness import harness_names, load_harness, parse_harness, read_screen
from fleettrio.local.port import AgentState
from fleettrio.panes.terminal import PaneFacts, Screen

RECORDED = sorted((Path(__file__).parent / "screens").glob("*/*.txt"))
"""Screens of the programs themselves: `<harness>/<version>-<case>.txt`, with what is to be read in them in front."""
RULE = "─" * 60
IDLE, WORKING, BLOCKED, UNKNOWN = AgentState.IDLE, AgentState.WORKING, AgentState.BLOCKED, AgentState.UNKNOWN


def screen(*lines: str, title: str = "", cursor_x: int = 0) -> Screen:
    facts = PaneFacts(
        pane="%1",
        dead=False,
        in_mode=False,
        pid=1,
        width=80,
        height=24,
        cursor_x=cursor_x,
        cursor_y=0,
        alternate=False,
        tty="/dev/pts/9",
        command="agent",
        title=title,
    )
    return Screen(facts, (*lines, "", ""))


CLAUDE_DIALOG = (
    RULE,
    " Bash command",
    " touch a",
    " Do you want to proceed?",
    " ❯ 1. Yes",
    "   2. No",
    "",
    " Esc to cancel · Tab",
)
CODEX_FOOT = ("", "  some-model default · /home/user/project")
BOX_FOOT = ("  ┃", "  ┃  Build · some-model", "  ╹▀▀▀▀▀▀▀▀")

SCREENS = [
    ("script", screen("hello", "❯"), IDLE, ""),
    ("script", screen("❯ earlier", "[turn 1]", "❯"), IDLE, ""),
    ("script", screen(RULE, "❯ half", "  typed", RULE), IDLE, "half\n  typed"),
    ("script", screen("❯      ────────────────────", "────"), IDLE, ""),
    ("script", screen(RULE, "❯ ─── typed", RULE), IDLE, "─── typed"),
    ("script", screen("✻ Working… (2 s)", RULE, "❯", RULE), WORKING, ""),
    ("script", screen("Allow `make`?", "❯ 1. Yes", "  2. No"), BLOCKED, "1. Yes\n  2. No"),
    ("script", screen("no prompt at all"), UNKNOWN, None),
    ("script", screen("│ ✻ Working… is what a peer wrote", "│ ❯ 1. Yes", "❯"), IDLE, ""),
    ("line", screen("user@host:~/src$ make", "ok: done", "user@host:~/src$", cursor_x=18), IDLE, ""),
    ("line", screen("> half typed", cursor_x=12), IDLE, "half typed"),
    ("line", screen("> earlier", "compiling", cursor_x=9), UNKNOWN, None),
    ("line", screen("> earlier", "result: ok"), UNKNOWN, None),
    ("claude", screen("❯ earlier prompt", "● answer", RULE, "❯\xa0", RULE, "  ? for shortcuts"), IDLE, ""),
    ("claude", screen(RULE, "❯\xa0do not", "  send this", RULE), IDLE, "do not\n  send this"),
    ("claude", screen(RULE, "❯\xa0[Pasted text #1 +3 lines]", RULE), IDLE, "[Pasted text #1 +3 lines]"),
    ("claude", screen(RULE, "❯\xa0Press up to edit queued messages", RULE), IDLE, ""),
    ("claude", screen(RULE, "❯\xa0", RULE, "  mode on · esc to interrupt · more"), WORKING, ""),
    ("claude", screen("✢ Pondering… (3s · ↓ 9 tokens)", RULE, "❯\xa0draft", RULE), WORKING, "draft"),
    ("claude", screen("✻ Pondered for 3s · done 8:19 PM", RULE, "❯\xa0", RULE), IDLE, ""),
    ("claude", screen(RULE, "❯\xa0", RULE, title="◐ Claude Code"), WORKING, ""),
    ("claude", screen(RULE, "❯\xa0", RULE, title="✳ Claude Code"), IDLE, ""),
    ("claude", screen(*CLAUDE_DIALOG, title="✳ Claude Code"), BLOCKED, None),
    ("claude", screen("starting"), UNKNOWN, None),
    ("codex", screen("› earlier", "• answer", "", "› Ask Codex to do anything", *CODEX_FOOT), IDLE, ""),
    ("codex", screen("› two", "  lines", *CODEX_FOOT), IDLE, "two\n  lines"),
    ("codex", screen("› one", "", "  after a gap", *CODEX_FOOT), IDLE, "one\n\n  after a gap"),
    ("codex", screen("› ", "", "  begins with a gap", *CODEX_FOOT), IDLE, "begins with a gap"),
    ("codex", screen("›", "  begins on the second line", *CODEX_FOOT), IDLE, "begins on the second line"),
    ("codex", screen("› earlier", "", "  and no composer below"), IDLE, "earlier"),
    ("codex", screen("◦ Working (3s • esc to interrupt)", "", "› Ask Codex to do anything", *CODEX_FOOT), WORKING, ""),
    ("codex", screen("› x", *CODEX_FOOT, title="[ ! ] Action Required | Make it"), BLOCKED, "x"),
    ("codex", screen("› 1. Yes", "", "  Press enter to confirm or esc to cancel"), BLOCKED, "1. Yes"),
    ("opencode", screen("  ┃", "  ┃  earlier", "  ┃", "     ok", "  ┃", "  ┃", *BOX_FOOT), IDLE, ""),
    ("opencode", screen("  ┃", '  ┃  Ask anything… "what?"', *BOX_FOOT), IDLE, ""),
    ("opencode", screen("  ┃", "  ┃  do not", *BOX_FOOT), IDLE, "do not"),
    ("opencode", screen("  ┃", "  ┃", *BOX_FOOT, "   ⬝⬝⬝⬝  esc interrupt     tab agents"), WORKING, ""),
    ("opencode", screen("  ┃", "  ┃  △ Permission required", "  ┃", "  ┃   Allow once   Reject"), BLOCKED, None),
]


@pytest.mark.parametrize(("name", "seen", "state", "draft"), SCREENS)
def test_a_screen_is_read(name: str, seen: Screen, state: AgentState, draft: str | None) -> None:
    reading = read_screen(load_harness(name), seen)
    assert (reading.state, reading.draft) == (state, draft)


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_recorded_screen_is_read_title_and_screen_apart(file: Path) -> None:
    head, _, shown = file.read_text("utf-8").partition("---\n")
    expected = tomllib.loads(head)
    reading = read_screen(load_harness(file.parent.name), screen(*shown.splitlines(), title=expected["title"]))
    assert (str(reading.title), str(reading.screen)) == (expected["by_title"], expected["by_screen"])
    assert reading.draft == expected.get("draft")


def test_every_dialog_that_was_recorded_forbids_typing_whatever_the_title_says() -> None:
    cases = ("permission", "dialog", "hook-list", "hook-review")
    dialogs = [file for file in RECORDED if file.stem.endswith(cases)]
    assert len(dialogs) > 8
    for file in dialogs:
        shown = file.read_text("utf-8").partition("---\n")[2].splitlines()
        for title in ("", "✳ Claude Code", "◐ Claude Code", "⠙ at work"):
            assert read_screen(load_harness(file.parent.name), screen(*shown, title=title)).state is BLOCKED, file.name


def test_the_shipped_harnesses_load_and_only_line_takes_no_paste() -> None:
    assert harness_names() == ("claude", "codex", "line", "opencode", "script")
    assert {name for name in harness_names() if not load_harness(name).bracketed_paste} == {"line"}
    assert load_harness("") is load_harness("line") or load_harness("") == load_harness("line")


def test_an_unknown_harness_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no harness 'clade'") as caught:
        load_harness("clade")
    assert "claude" in caught.value.hint
    with pytest.raises(ConfigError):
        load_harness("../port")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("about = 'x'\ncomposer = '^> (?P<draft>.*)$'\nbracketd_paste = true", "bracketd_paste"),
        ("about = 'x'\ncomposer = '^> (.*)$'", "draft"),
        ("about = 'x'\ncomposer = '^> (?P<draft>.*$'", "composer is not a regular expression"),
        ("about = 'x'\ncomposer = '(?P<draft>x)'\nbusy = ['[']", "busy is not a regular expression"),
        ("about = 'x'\ncomposer = '(?P<draft>x)'\nsettle_s = -1.0", "settle_s"),
        ("about = 'x'\ncomposer = '(?P<draft>x)'\nenter = 'Return'", "enter"),
        ("composer = ", "harness mine"),
        ("\xff", "harness mine"),
    ],
)
def test_a_harness_with_a_mistake_says_which(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_harness("mine", text.encode("latin-1"))
