"""A worktree per agent, in a real repository: never anything lost with it."""

from __future__ import annotations

import pytest

from fleettrio.launch.errors import LaunchError
from fleettrio.launch.worktree import make_worktree, remove_worktree
from tests.launch.conftest import Room, git


async def test_an_agent_gets_a_branch_of_its_own_at_the_folder_it_asked_for(room: Room) -> None:
    repository = room.repository()
    made = await make_worktree(repository / "src", room.work / "trees", "w-1", room.env)
    assert (made.cwd / "a.txt").read_text() == "a\n"
    assert made.cwd == made.path / "src"
    assert git(made.path, "branch", "--show-current") == made.branch == "fleettrio/w-1"
    assert git(repository, "branch", "--show-current") == "main"


async def test_a_clean_one_goes_without_a_trace(room: Room) -> None:
    repository = room.repository()
    made = await make_worktree(repository, room.work / "trees", "w-1", room.env)
    assert await remove_worktree(made.path, room.env) == ""
    assert not made.path.exists()
    assert git(repository, "branch", "--format=%(refname:short)") == "main"
    assert await remove_worktree(made.path, room.env) == ""


async def test_uncommitted_work_keeps_it_and_says_where(room: Room) -> None:
    made = await make_worktree(room.repository(), room.work / "trees", "w-1", room.env)
    (made.path / "new.txt").write_text("work")
    said = await remove_worktree(made.path, room.env)
    assert str(made.path) in said
    assert "not committed" in said
    assert (made.path / "new.txt").read_text() == "work"


async def test_commits_stay_on_their_branch(room: Room) -> None:
    repository = room.repository()
    made = await make_worktree(repository, room.work / "trees", "w-1", room.env)
    (made.path / "new.txt").write_text("work")
    git(made.path, "add", ".")
    git(made.path, "commit", "-q", "-m", "work")
    assert "fleettrio/w-1" in await remove_worktree(made.path, room.env)
    assert not made.path.exists()
    assert git(repository, "show", "fleettrio/w-1:new.txt") == "work"


async def test_no_hook_of_the_repository_runs(room: Room) -> None:
    repository = room.repository()
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {room.work}/hooked\n")
    hook.chmod(0o755)
    await make_worktree(repository, room.work / "trees", "w-1", room.env)
    assert not (room.work / "hooked").exists()


async def test_a_folder_in_no_repository_is_an_error(room: Room) -> None:
    with pytest.raises(LaunchError, match="not a git repository") as caught:
        await make_worktree(room.work, room.work / "trees", "w-1", room.env)
    assert caught.value.reason == "worktree"
