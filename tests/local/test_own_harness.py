"""Harness files of a person's own: a new program needs a file, no code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleettrio.errors import ConfigError
from fleettrio.local.harness import _File, harness_names, harness_of, load_harness
from fleettrio.local.port import AgentState, DeliveryOutcome, Reserved
from fleettrio.local.tmux import TmuxTransport
from fleettrio.testing.agents.room import TmuxRoom, until
from fleettrio.testing.transport_case import framed

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "new-harness.md"

FILE = """
about = "a program of ours"
programs = ["murmur"]
composer = '^murmur> (?P<draft>.*)$'
bracketed_paste = true
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for them, empty."""
    monkeypatch.setenv("FLEETTRIO_HOME", str(tmp_path))
    folder = tmp_path / "harness"
    folder.mkdir()
    return folder


def test_a_file_in_the_folder_is_a_harness(own: Path) -> None:
    (own / "murmur.toml").write_text(FILE)
    assert "murmur" in harness_names()
    assert load_harness("murmur").about == "a program of ours"
    assert harness_of(["bash", "murmur"]) == "murmur"


def test_a_file_with_the_name_of_a_shipped_one_goes_before_it(own: Path) -> None:
    """A new version of a program may look different before we do."""
    shipped = load_harness("claude")
    (own / "claude.toml").write_text(FILE)
    assert load_harness("claude") != shipped
    (own / "claude.toml").unlink()
    assert load_harness("claude") == shipped


def test_a_file_that_was_mended_is_read_anew(own: Path) -> None:
    (own / "murmur.toml").write_text(FILE + "bogus = 1\n")
    with pytest.raises(ConfigError, match="bogus") as caught:
        load_harness("murmur")
    assert str(own / "murmur.toml") in caught.value.hint
    assert harness_of(["claude"]) == "claude", "a mistake in one file hides no other"
    (own / "murmur.toml").write_text(FILE)
    assert load_harness("murmur").programs == {"murmur"}


@pytest.mark.parametrize("name", ["Murmur.toml", "-x.toml", "a b.toml", "murmur.toml~", "x" * 40 + ".toml"])
def test_files_with_other_names_are_nobody_s(own: Path, name: str) -> None:
    (own / name).write_text(FILE)
    assert harness_names() == ("claude", "codex", "line", "opencode", "script")


def test_no_folder_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETTRIO_HOME", str(tmp_path / "nowhere"))
    assert load_harness("").name == "line"
    with pytest.raises(ConfigError, match="no harness"):
        load_harness("../secret")


def test_a_folder_in_place_of_a_file_is_said(own: Path) -> None:
    (own / "murmur.toml").mkdir()
    with pytest.raises(ConfigError):
        load_harness("murmur")


def test_the_guide_names_every_key_and_its_example_is_a_harness(own: Path) -> None:
    guide = GUIDE.read_text("utf-8")
    named = {word for line in guide.splitlines() if line.startswith("| `") for word in re.findall(r"`(\w+)`", line)}
    assert {field for field in _File.__struct_fields__ if field not in named} == set()
    example = guide.partition("```toml\n")[2].partition("```")[0]
    (own / "murmur.toml").write_text(example, "utf-8")
    assert load_harness("murmur").programs == {"murmur"}


async def test_the_guide_s_example_drives_the_program_it_describes(own: Path, room: TmuxRoom) -> None:
    example = GUIDE.read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    (own / "murmur.toml").write_text(example, "utf-8")
    agent = await room.start("--glyph", "murmur>", "--hold")
    via = TmuxTransport(agent.target, load_harness("murmur"), env=room.env)
    reserved = await via.reserve("idle")
    assert isinstance(reserved, Reserved)
    assert (await via.deliver(reserved, framed())).outcome is DeliveryOutcome.SUBMITTED
    assert await until("its turn", agent.turns) == [framed().framed]
    await until("it shows that it works", lambda: "Working" in room.screen(agent.pane))
    assert await via.state() is AgentState.WORKING
    agent.open_dialog()
    await until("the dialog shows", lambda: "1. Yes" in room.screen(agent.pane))
    assert await via.state() is AgentState.BLOCKED
