"""Real git repositories for tests: every commit has a time and an author that the test chose."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ("WRITTEN", "Repo")

WRITTEN = 2_100_000_000_000
"""When the message of a test was written, ms. What a test does later has later times; it is far ahead of every clock,
so that a message which a real daemon writes now is older, too."""


class Repo:
    """One work tree. Times are in minutes after `WRITTEN`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def new(cls, folder: Path, **files: str) -> Repo:
        folder.mkdir(parents=True)
        repo = cls(folder)
        repo.git("init", "-q", "-b", "main")
        if files:
            repo.commit(-60, "lead", **files)
        return repo

    def git(self, *command: str, at_min: float = -60, by: str = "lead") -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        when = f"@{WRITTEN // 1000 + int(at_min * 60)} +0000"
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ALLOW_PROTOCOL": "file"}
        for who in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{who}_NAME": by, f"GIT_{who}_EMAIL": f"{by}@example.org", f"GIT_{who}_DATE": when}
        done = subprocess.run(["git", *command], cwd=self.folder, env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def write(self, at_min: float, **files: str) -> None:
        """`a__b_rs` is the file `a/b.rs`."""
        for name, content in files.items():
            file = self.folder / name.replace("__", "/").replace("_", ".")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
            seconds = WRITTEN / 1000 + at_min * 60
            os.utime(file, (seconds, seconds))

    def commit(self, at_min: float, by: str, **files: str) -> str:
        self.write(at_min, **files)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change", at_min=at_min, by=by)
        return self.head

    def worktree(self, folder: Path, branch: str) -> Repo:
        self.git("worktree", "add", "-q", "-b", branch, str(folder))
        return Repo(folder)

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    @property
    def cwd(self) -> str:
        return str(self.folder)
