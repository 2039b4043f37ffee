"""Driver of git: where a work tree is, what its owner believes about it, what moved in it. It changes nothing there.

Rules:
1. Everything here takes at most `LIMIT_S`, whatever the repository is like; what does not is not known (None).
2. git is asked for facts about commits only (`gitprogram`).
3. File contents are read by `worktree`, never through git.
4. No repository, no commit yet, no git: None, and nobody is bothered with it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
import trio

from fleettrio.core.drift import Belief, Change, FileSeen, Relation, TreeSeen
from fleettrio.ids import WallMs
from fleettrio.panes.gitprogram import printed, run
from fleettrio.panes.worktree import NotJudged, read_file, top_of
from fleettrio.wire.causal import MAX_BRANCH, MAX_CAUSAL, MOST_PATHS, Causal, is_branch, is_object_id, is_tree_path

__all__ = ("LIMIT_S", "Place", "believe", "look", "mentioned", "place_of", "trees_of")

T = TypeVar("T")

LIMIT_S = 1.0
_MOST_CHANGES = 100
"""Commits of one file that are told apart."""
_MOST_MENTIONED, _MOST_TEXT = 200, 64 * 1024
_ROOM = MAX_CAUSAL - MAX_BRANCH - 300
"""Bytes for paths and fingerprints in a causal field, beside three ids and a branch."""
_READERS = trio.CapacityLimiter(4)
"""A look at the disk that hangs keeps its thread: there are never more than these."""
_WORD = re.compile(r"[^\s`'\"()<>\[\]{},;|]+")


class Place(msgspec.Struct, frozen=True):
    """A work tree and what it is at."""

    tree: str
    repo: str
    """Id of the first commit; empty where a shallow clone does not have it."""
    head: str
    is_shallow: bool
    branch: str
    """Empty: on none, or its name is too long to be told."""


async def place_of(cwd: str, repo: str = "") -> Place | None:
    """Where `cwd` is. `repo`: the first commit's id, if it is known from an earlier look at the same folder.

    Cancelled, git is ended.
    """
    with trio.move_on_after(LIMIT_S):
        return await _place(cwd, repo)
    return None


async def trees_of(folders: Iterable[str]) -> dict[str, str]:
    """Folder → top of the work tree it lies in, for those that lie in one."""
    asked = tuple(set(folders))

    def look_up() -> dict[str, str]:
        return {folder: top for folder in asked if (top := top_of(folder)) is not None}

    with trio.move_on_after(LIMIT_S):
        return await _in_thread(look_up)
    return {}


async def believe(cwd: str, paths: Sequence[str], mentions: Sequence[str] = ()) -> Belief | None:
    """What a sender in `cwd` believes, about `paths` or, if there are none, about the tracked files among `mentions`.

    Paths and mentions may be absolute, relative to `cwd`, or relative to the top of the tree. Raises `NotJudged` for a
    path that was named and cannot be fingerprinted. Cancelled, git is ended.
    """
    with trio.move_on_after(LIMIT_S):
        place = await _place(cwd, "")
        if place is None or not place.repo:
            return None
        tree = place.tree
        names = await _in_thread(lambda: [_named(tree, cwd, path) for path in paths])
        if not paths:
            names = await _tracked(place.tree, cwd, mentions)
        if len(set(names)) > MOST_PATHS:
            raise NotJudged(f"{len(set(names))} paths; a message can be about at most {MOST_PATHS}")
        prints: dict[str, bytes] = {}
        room = _ROOM
        for name in dict.fromkeys(names):
            room -= len(name.encode()) + 2 + 34
            if room < 0 and not paths:
                break
            if room < 0:
                raise NotJudged("these paths are too long together: name fewer")
            if (sha256 := await _fingerprint(tree, name, is_must=bool(paths))) is not None:
                prints[name] = sha256
            elif paths:
                raise NotJudged(f"{name} does not exist in {place.tree}")
        return Belief(place.tree, place.repo, place.head, tuple(prints), tuple(prints.values()), place.branch)
    return None


async def look(cwd: str, causal: Causal, repo: str = "") -> TreeSeen | None:
    """What the tree around `cwd` shows of what `causal` speaks of. None: another repository, or not to be found out.

    Cancelled, git is ended.
    """
    with trio.move_on_after(LIMIT_S):
        place = await _place(cwd, repo)
        if place is None:
            return None
        base, relation = await _base(place, causal)
        if place.repo != causal.repo and (place.repo or relation is Relation.MISSING or not base):
            return None  # a shallow clone does not know its first commit, but it may know the one that is named
        if place.is_shallow and relation in (Relation.MISSING, Relation.APART):
            relation = Relation.UNSAID  # the way there may be cut off
        count = 0
        if relation is Relation.BEHIND:
            count = int(await printed(place.tree, "rev-list", "--count", f"{base}..HEAD") or 0)
        files = await _files(place, causal, base, relation)
        return TreeSeen(place.head, base, relation, count, files, place.repo)
    return None


def mentioned(text: str) -> list[str]:
    """Words of a message that may be paths of files: they have a dot or a slash."""
    words = (word.strip(".:!?*") for word in _WORD.findall(text[:_MOST_TEXT]))
    likely = (re.sub(r":\d+(?::\d+)?$", "", word) for word in words if "/" in word or "." in word)
    return list(dict.fromkeys(likely))[:_MOST_MENTIONED]


# --- inside -------------------------------------------------------------------------------------


async def _place(cwd: str, repo: str) -> Place | None:
    tree = await _in_thread(lambda: top_of(cwd))
    if tree is None:
        return None
    facts = ("--is-shallow-repository", "HEAD^{commit}", "--symbolic-full-name", "HEAD")
    match (await printed(tree, "rev-parse", *facts)).split("\n"):
        case [shallow, head, name, *_] if is_object_id(head):
            is_shallow = shallow == "true"
            branch = name.removeprefix("refs/heads/") if name.startswith("refs/heads/") and is_branch(name) else ""
        case _:
            return None
    if not repo and not is_shallow:
        # One line of descent has one beginning; all of them would be a long walk for the same answer.
        repo = (await printed(tree, "rev-list", "--first-parent", "--max-parents=0", "--max-count=1", "HEAD")).strip()
    return Place(tree, repo, head, is_shallow, branch)


async def _base(place: Place, causal: Causal) -> tuple[str, Relation]:
    """The commit that the message was written against, and where it lies: rule 2 of `core.drift`."""
    if causal.own_head and causal.own_branch == place.branch:
        relation = await _relation(place, causal.own_head)
        if relation is Relation.BEHIND:
            return causal.own_head, relation
    return causal.head, await _relation(place, causal.head)


async def _relation(place: Place, head: str) -> Relation:
    if not head:
        return Relation.UNSAID
    if head == place.head:
        return Relation.SAME
    done = await run(place.tree, "merge-base", "--is-ancestor", head, "HEAD")
    return {0: Relation.BEHIND, 1: Relation.APART}.get(done.returncode if done else -1, Relation.MISSING)


async def _files(place: Place, causal: Causal, base: str, relation: Relation) -> tuple[FileSeen, ...]:
    """The files that are not what they were believed to be."""
    differing: list[tuple[str, str, WallMs]] = []

    def judge(path: str, fingerprint: bytes) -> None:
        with contextlib.suppress(NotJudged):
            read = read_file(place.tree, path)
            if read is None:
                differing.append((path, "", WallMs(0)))
            elif read.sha256 != fingerprint:
                differing.append((path, read.blob(like=place.head), read.written))

    for path, fingerprint in zip(causal.paths, causal.fingerprints, strict=True):
        await _in_thread(partial(judge, path, fingerprint))
    if not differing:
        return ()
    paths = [path for path, _, _ in differing]
    is_known = relation is not Relation.MISSING and bool(base)
    at_head = await _blobs(place.tree, "HEAD", paths)
    then = await _blobs(place.tree, base, paths) if is_known else {}
    has_changes = relation in (Relation.BEHIND, Relation.APART)
    return tuple(
        [
            FileSeen(
                path=path,
                exists=bool(blob),
                blob=blob,
                blob_then=then.get(path, ""),
                blob_head=at_head.get(path, ""),
                written=written,
                changes=await _changes(place.tree, base, path) if has_changes else (),
            )
            for path, blob, written in differing
        ]
    )


async def _blobs(tree: str, commit: str, paths: Sequence[str]) -> dict[str, str]:
    """Path → id of its content in `commit`, for those that are there."""
    listed = await printed(tree, "ls-tree", "-z", "--full-tree", commit, "--", *paths)
    lines = (line.partition("\t") for line in listed.split("\0") if "\t" in line)
    return {path: facts.split(" ")[2] for facts, _, path in lines}


async def _changes(tree: str, since: str, path: str) -> tuple[Change, ...]:
    """Commits that touched `path` on the way from `since` to HEAD, newest first."""
    listed = await printed(
        tree, "rev-list", f"--max-count={_MOST_CHANGES}", "--format=%ct %an", f"{since}..HEAD", "--", path
    )
    lines = (line.partition(" ") for line in listed.split("\n") if line and not line.startswith("commit "))
    return tuple(Change(WallMs(int(at) * 1000), by) for at, _, by in lines if at.isdecimal())


async def _tracked(tree: str, cwd: str, mentions: Iterable[str]) -> list[str]:
    """Those of the mentions that git keeps: an untracked file may be nobody's business."""

    def names_of() -> list[str]:
        names: list[str] = []
        for mention in mentions:
            for base in (cwd, tree):
                with contextlib.suppress(NotJudged):
                    names.append(_named(tree, base, mention))
        return names

    names = await _in_thread(names_of)
    if not names:
        return []
    listed = await printed(tree, "ls-files", "-z", "--", *dict.fromkeys(names))
    tracked = set(listed.split("\0"))
    return [name for name in dict.fromkeys(names) if name in tracked][:MOST_PATHS]


def _named(tree: str, base: str, path: str) -> str:
    """`path`, said in `base`, as a path of the tree. Raises `NotJudged` when it is none."""
    whole = os.path.normpath(os.path.join(os.path.realpath(base), path))
    name = os.path.relpath(whole, tree)
    if not is_tree_path(name):
        raise NotJudged(f"{path!r} is not the path of a file in {tree}")
    return name


async def _fingerprint(tree: str, path: str, *, is_must: bool) -> bytes | None:
    """SHA-256 of a file; None when there is none. `is_must`: what is no readable small file raises `NotJudged`."""
    try:
        read = await _in_thread(lambda: read_file(tree, path))
    except NotJudged:
        if is_must:
            raise
        return None
    return read.sha256 if read else None


async def _in_thread(read: Callable[[], T]) -> T:
    """A look at the disk, which may hang: left alone when the time is over."""
    return await trio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=_READERS)
