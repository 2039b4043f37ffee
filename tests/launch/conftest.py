"""What tests of the launcher share: a home with its own tmux server, and a git repository."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleettrio.home import resolve_paths
from fleettrio.ids import Gid
from fleettrio.launch.launcher import Launcher, Order
from fleettrio.profiles import Profile

__all__ = ("Room", "git", "room")

AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org"}
COMMITTER = {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}


def git(folder: Path, *command: str) -> str:
    own = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env = {**own, **AUTHOR, **COMMITTER, "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(["git", "-C", folder, *command], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class Room:
    """A launcher with a home, folders to start in, and a tmux server that ends with it."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.env = {**os.environ, "FLEETTRIO_HOME": str(folder / "home"), "TMUX_TMPDIR": str(folder)}
        self.paths = resolve_paths(self.env)
        self.launcher = self.again()

    def again(self) -> Launcher:
        """The launcher of the next daemon of this home."""
        return Launcher(self.paths, self.env)

    def order(self, profile: Profile, *, cwd: str = "", worktree: bool = False, token: str = "") -> Order:
        spawn_id = Gid(f"{secrets.token_hex(4)}-0000-8000-8000-000000000000")
        return Order(spawn_id=spawn_id, name="worker", profile=profile, cwd=cwd, worktree=worktree, token=token)

    def profile(self, *command: str, **values: object) -> Profile:
        given = {"name": "worker", "cwd": str(self.work), "roots": (str(self.work),), **values}
        return Profile(command=command, **given)  # type: ignore[arg-type]

    def script(self, text: str) -> str:
        file = self.work / f"{secrets.token_hex(4)}.sh"
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return str(file)

    def repository(self) -> Path:
        repository = self.work / "repo"
        (repository / "src").mkdir(parents=True)
        git(repository, "init", "-q", "-b", "main")
        (repository / "src" / "a.txt").write_text("a\n")
        git(repository, "add", ".")
        git(repository, "commit", "-q", "-m", "first")
        return repository

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self.launcher.server, "kill-server"], env=self.env, capture_output=True)


@pytest.fixture
def room() -> Iterator[Room]:
    folder = Path(tempfile.mkdtemp(prefix="ft-")).resolve()
    room = Room(folder)
    yield room
    room.close()
    shutil.rmtree(folder, ignore_errors=True)
