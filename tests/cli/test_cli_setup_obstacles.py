"""Settings that keep our hooks or tools from working: setup says so before it asks, doctor as long as it is so."""

from __future__ import annotations

import pathlib

import pytest

from fleettrio.api import schema
from tests.cli.fake_daemon import Cli

SETTINGS = ".claude/settings.json"
OBSTACLES = [
    ("claude", SETTINGS, '{"disableAllHooks": true}', "disableAllHooks"),
    (
        "claude",
        SETTINGS,
        '{"permissions": {"deny": ["Read(./.env)", "mcp__fleet"]}}',
        "permissions.deny has mcp__fleet",
    ),
    ("claude", SETTINGS, '{"permissions": {"deny": ["mcp__*"]}}', "permissions.deny has mcp__*"),
    ("claude", SETTINGS, '{\n  // mine\n  "model": "opus"\n}\n', "has comments"),
    ("codex", ".codex/config.toml", "[features]\nhooks = false\n", "hooks = false"),
]
HARMLESS = [
    (
        "claude",
        SETTINGS,
        '{"disableAllHooks": false, "permissions": {"deny": ["mcp__docs", "mcp__fleet__fleet_stop"]}}',
    ),
    ("codex", ".codex/config.toml", "[features]\nhooks = true\n"),
]


def write(folder: pathlib.Path, place: str, text: str) -> pathlib.Path:
    file = folder / place
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    return file


def check(cli: Cli, harness: str) -> schema.Check:
    report: schema.DoctorReport = cli("doctor", "--json").decoded(schema.DoctorReport)
    return next(check for check in report.checks if check.name == harness)


@pytest.mark.parametrize(("harness", "place", "text", "told"), OBSTACLES)
def test_setup_warns_before_it_asks(
    cli: Cli, folder: pathlib.Path, harness: str, place: str, text: str, told: str
) -> None:
    file = write(folder, place, text)
    done = cli("setup", harness)
    assert done.code == 2, "nobody is here to ask"
    words = " ".join(done.err.split())
    assert f"~/{place}" in words
    assert told in words
    assert file.read_text("utf-8") == text


@pytest.mark.parametrize(("harness", "place", "text", "told"), OBSTACLES)
def test_doctor_says_that_what_is_set_up_cannot_work(
    cli: Cli, folder: pathlib.Path, harness: str, place: str, text: str, told: str
) -> None:
    write(folder, place, text)
    assert cli("setup", harness, "--yes").code == 0
    assert told in " ".join(cli("setup", harness).err.split()), "also when nothing is left to write"
    found = check(cli, harness)
    assert not found.ok
    assert told in found.detail
    assert f"~/{place}" in found.fix


@pytest.mark.parametrize(("harness", "place", "text"), HARMLESS)
def test_what_hinders_nothing_is_not_spoken_of(
    cli: Cli, folder: pathlib.Path, harness: str, place: str, text: str
) -> None:
    write(folder, place, text)
    assert cli("setup", harness, "--yes").err == ""
    assert check(cli, harness).ok
