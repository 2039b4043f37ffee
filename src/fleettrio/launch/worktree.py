"""A git worktree for one agent: a branch of its own, in a folder below the state folder.

Not beside the repository: there it would lie in the person's way and possibly outside of the profile's roots. It is
removed with its agent when nothing in it would be lost, else kept, and where it is gets said. Commits always stay, on
their branch. No hook of the repository runs, and no program that its configuration names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import trio

from fleettrio.launch.errors import LaunchError

__all__ = ("Worktree", "make_worktree", "remove_worktree")

LIMIT_S = 60.0
"""A checkout of a large repository takes its time."""
BRANCHES = "fleettrio/"
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")


class Worktree(msgspec.Struct, frozen=True):
    path: Path
    branch: str
    cwd: Path
    """The folder in it that was asked for: where in the repository the request pointed."""


async def make_worktree(folder: Path, below: Path, name: str, env: Mapping[str, str]) -> Worktree:
    """A worktree of the repository around `folder`, called `name`, below the folder `below`; its branch starts at HEAD.

    Raises `LaunchError`. Cancelled, a part of it may be left: `remove_worktree` takes it away.
    """
    top = Path(await _git(folder, env, "rev-parse", "--show-toplevel"))
    path, branch = below / name, BRANCHES + name
    await trio.Path(below).mkdir(mode=0o700, parents=True, exist_ok=True)
    await _git(top, env, "worktree", "add", "--quiet", "-b", branch, str(path), "HEAD")
    return Worktree(path, branch, path / folder.relative_to(top))


async def remove_worktree(path: Path, env: Mapping[str, str]) -> str:
    """Take the worktree away when it is clean; returns what is to be said of it, empty when nothing is left.

    Nothing that was not committed is deleted, but for what the repository ignores; and no branch whose commits are
    nowhere else.
    """
    if not await trio.Path(path).is_dir():
        return ""
    try:
        if await _git(path, env, "status", "--porcelain", "--ignore-submodules=none"):
            return f"its worktree has changes that are not committed and was kept: {path}"
        branch = await _git(path, env, "branch", "--show-current")
        common = Path(await _git(path, env, "rev-parse", "--path-format=absolute", "--git-common-dir"))
        await _git(common, env, "worktree", "remove", str(path))
    except LaunchError as error:
        return f"its worktree could not be removed and was kept: {path} ({error})"
    return await _drop_branch(common, branch, env)


async def _drop_branch(common: Path, branch: str, env: Mapping[str, str]) -> str:
    """Only a branch that we made, and only when all of its commits are on another one."""
    if not branch.startswith(BRANCHES):
        return f"its worktree was removed; its work is on the branch {branch}" if branch else ""
    tip = f"refs/heads/{branch}"
    others = await _git(common, env, "for-each-ref", "--contains", tip, "--format=%(refname)")
    if set(others.split()) - {tip}:
        await _git(common, env, "branch", "--quiet", "-D", branch)
        return ""
    return f"its worktree was removed; its commits are on the branch {branch}"


async def _git(folder: Path, env: Mapping[str, str], *command: str) -> str:
    """Output of one git command, stripped. Raises `LaunchError` with the first line of what git says."""
    own = {key: value for key, value in {**os.environ, **env}.items() if not key.startswith("GIT_")}
    own |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
    try:
        with trio.fail_after(LIMIT_S):
            done = await trio.run_process(
                [*_GIT, "-C", str(folder), *command], capture_stdout=True, capture_stderr=True, check=False, env=own
            )
    except trio.TooSlowError:
        raise LaunchError("worktree", f"git {command[0]} did not end within {LIMIT_S:.0f} s") from None
    except OSError as error:
        raise LaunchError("worktree", f"git cannot be started: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise LaunchError("worktree", f"git {command[0]}: {said[0] if said else f'exit code {done.returncode}'}")
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")
