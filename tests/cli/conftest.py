"""A home of its own for each test, a fake daemon in it, and the command."""

from __future__ import annotations

import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from tests.cli.fake_daemon import Cli, FakeDaemon


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ft-", dir="/tmp"))
    monkeypatch.setenv("FLEETTRIO_HOME", str(folder))
    monkeypatch.delenv("FLEETTRIO_TOKEN", raising=False)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def folder(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A person's home folder."""
    person = home / "ann"
    person.mkdir()
    monkeypatch.setenv("HOME", str(person))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "CLAUDECODE"):
        monkeypatch.delenv(name, raising=False)
    return person


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, home: pathlib.Path) -> Cli:
    return Cli(monkeypatch, home)


@pytest.fixture
def daemon(home: pathlib.Path) -> Iterator[FakeDaemon]:
    fake = FakeDaemon(home)
    fake.start()
    yield fake
    fake.stop()
