"""What `doctor` says of harnesses: set up, half set up, broken, or not at all; and what it writes again."""

from __future__ import annotations

import pathlib

import pytest

from fleettrio.api import schema
from tests.cli.fake_daemon import Cli


@pytest.fixture
def folder(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A person's home folder, and an empty one for programs in front of PATH."""
    (folder / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
    return folder


def checks(cli: Cli) -> dict[str, schema.Check]:
    report = cli("doctor", "--json").decoded(schema.DoctorReport)
    return {check.name: check for check in report.checks}


def install(folder: pathlib.Path, harness: str) -> None:
    program = folder / "bin" / harness
    program.write_text("#!/bin/sh\n", "utf-8")
    program.chmod(0o755)


def test_a_harness_that_nobody_has_is_not_spoken_of(cli: Cli, folder: pathlib.Path) -> None:
    assert {"claude", "codex", "opencode", "hook program"} & set(checks(cli)) == set()


def test_one_that_is_installed_may_stay_without_our_parts(cli: Cli, folder: pathlib.Path) -> None:
    install(folder, "claude")
    found = checks(cli)["claude"]
    assert found.ok
    assert "fleettrio setup claude" in found.detail


def test_one_that_is_set_up_is_well(cli: Cli, folder: pathlib.Path) -> None:
    cli("setup", "codex", "--yes")
    found = checks(cli)
    assert found["codex"].ok
    assert "~/.codex" in found["codex"].detail
    assert found["hook program"].ok
    assert found["MCP program"].ok


def test_what_went_missing_is_named_and_written_again(cli: Cli, folder: pathlib.Path) -> None:
    cli("setup", "claude", "--yes")
    settings = folder / ".claude/settings.json"
    whole = settings.read_bytes()
    settings.write_bytes(whole.replace(b"mcp__fleet__*", b"mcp__docs__*"))
    found = checks(cli)["claude"]
    assert not found.ok
    assert "~/.claude/settings.json" in found.detail
    assert found.fix == "fleettrio setup claude"
    done = cli("doctor", "--fix", "setup")
    assert done.code == 0
    assert "~/.claude/settings.json" in done.text
    assert b"mcp__docs__*" in settings.read_bytes(), "what somebody put there stays"
    assert checks(cli)["claude"].ok
    assert "nothing" in cli("doctor", "--fix", "setup").text


def test_a_settings_file_that_nobody_can_read_is_a_problem(cli: Cli, folder: pathlib.Path) -> None:
    (folder / ".codex").mkdir()
    (folder / ".codex/config.toml").write_text('model = "x\n', "utf-8")
    found = checks(cli)["codex"]
    assert not found.ok
    assert ".codex/config.toml" in found.detail
    assert found.fix


def test_a_program_that_hooks_would_not_find_is_a_problem(
    cli: Cli, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(folder, "claude")
    monkeypatch.setattr("fleettrio.clients.cli.harnesschecks.hook_program", lambda: "/nonexistent/fleettrio-hook")
    found = checks(cli)["hook program"]
    assert not found.ok
    assert "/nonexistent/fleettrio-hook" in found.detail
    assert "doctor --fix setup" in found.fix


def test_a_tmux_that_is_too_old_is_named(cli: Cli, folder: pathlib.Path) -> None:
    program = folder / "bin" / "tmux"
    program.write_text("#!/bin/sh\necho tmux 2.9a\n", "utf-8")
    program.chmod(0o755)
    found = checks(cli)["tmux"]
    assert not found.ok
    assert "2.9a" in found.detail
