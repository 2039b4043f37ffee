"""A git repository of the demo: the project that lead and coder work on, each in a clone of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from fleettrio.errors import FleetTrioError

__all__ = ("Repository",)


class Repository:
    """One work tree. Neither the person's git configuration nor any hook has a part in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def founded(cls, folder: Path, name: str, text: str) -> Repository:
        """A new one, with one commit that has the file `name`."""
        folder.mkdir(parents=True)
        repository = cls(folder)
        repository.git("init", "--quiet", "--initial-branch", "main")
        repository.commit("lead", name, text)
        return repository

    def clone(self, folder: Path) -> Repository:
        self.git("clone", "--quiet", str(self.folder), str(folder))
        return Repository(folder)

    def commit(self, author: str, name: str, text: str) -> None:
        """The file `name` has this text from now on, says `author`."""
        (self.folder / name).write_text(text, "utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"{name} as {author} wants it", author=author)

    def git(self, *command: str, author: str = "lead") -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        for role in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{role}_NAME": author, f"GIT_{role}_EMAIL": f"{author}@example.org"}
        try:
            done = subprocess.run(
                ["git", *command], cwd=self.folder, env=env, capture_output=True, text=True, check=False
            )
        except FileNotFoundError as error:
            raise FleetTrioError("git is not installed on this machine", hint="apt-get install git") from error
        if done.returncode != 0:
            raise FleetTrioError(f"git {command[0]}: {done.stderr.strip()}")
        return done.stdout.strip()
