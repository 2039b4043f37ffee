"""Taking a setup back where there was none: files that have nothing of ours stay to the byte."""

from __future__ import annotations

import pathlib

import pytest

from fleettrio.clients.setup.plans import HARNESSES
from tests.cli.fake_daemon import Cli

HOLLOW = {
    ".claude.json": b'{"mcpServers":{}}',
    ".claude/settings.json": b'{"hooks": {"Stop": [], "SessionEnd": []}, "permissions": {"allow": []}}',
    ".codex/hooks.json": b'{"hooks":{}}',
    ".config/opencode/opencode.json": b'{"mcp": {}}\n',
}
"""Nothing of ours, and as empty as what we would leave."""


@pytest.fixture
def hollow(folder: pathlib.Path) -> pathlib.Path:
    for place, data in HOLLOW.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(data)
    return folder


def found(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("harness", HARNESSES)
def test_undo_writes_nothing_where_nothing_of_ours_is(cli: Cli, hollow: pathlib.Path, harness: str) -> None:
    done = cli("setup", harness, "--undo", "--yes")
    assert done.code == 0
    assert "nothing to take back" in done.text
    assert found(hollow) == HOLLOW


def test_uninstall_writes_nothing_where_nothing_of_ours_is(cli: Cli, hollow: pathlib.Path) -> None:
    done = cli("uninstall", "--yes")
    assert done.code == 0
    assert "only our parts" not in done.text
    assert found(hollow) == HOLLOW
