"""What moved in the recipient's work tree since a message was written: the note that goes with it, or none.

Rules:
1. Another repository: nothing is said. What could not be looked at: nothing is said.
2. A sender on the branch of the tree whose own commit lies behind HEAD has not seen what came since: its commit is what
   the message was written against. Else it is the commit at which the tree was believed to be.
3. The commit the message was written against lies behind the tree's HEAD: the way between them is drift. It lies on no
   line to HEAD, or is not known here: that is said, and only files whose content changed are drift.
4. A file whose content is the sender's has not changed. One whose content is that of the named commit has not either:
   it was another one in the sender's tree before (worktrees of different branches).
5. A change that no commit tells of counts if the file was written after the message was, as far as clocks can say.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from fleettrio.ids import WallMs
from fleettrio.wire.causal import Causal, is_object_id

__all__ = ("Belief", "Change", "Drift", "FileSeen", "Relation", "TreeSeen", "drift")

NOTE_MOST = 400
"""Characters of a note."""
_NAME_MOST = 40
_MOST_FILES, _MOST_AUTHORS = 4, 3
_SLACK_MS = 2_000
"""A file is fingerprinted a moment before its message gets its time."""


class Belief(msgspec.Struct, frozen=True):
    """What a sender sees in its own work tree. `tree` is the top of it, a path of this host: it never travels."""

    tree: str
    repo: str
    head: str
    paths: tuple[str, ...] = ()
    fingerprints: tuple[bytes, ...] = ()
    branch: str = ""
    """Empty: on none, or on one whose name is too long to be told."""

    def causal(self, head: str) -> Causal:
        """What travels to a recipient whose tree is believed to be at `head`."""
        is_elsewhere = self.branch != "" and self.head != head
        return Causal(
            repo=self.repo,
            head=head,
            own_head=self.head if is_elsewhere else "",
            own_branch=self.branch if is_elsewhere else "",
            paths=self.paths,
            fingerprints=self.fingerprints,
        )

    def about(self, repo: str, head: str, *, is_shared: bool) -> Causal | None:
        """What travels to a recipient that announced `repo` and `head`; None when there is nothing to compare.

        `is_shared`: it works in the sender's own tree, where the sender sees the HEAD itself.
        """
        if is_shared:
            return self.causal(self.head)
        if repo and repo != self.repo:
            return None
        head = head if repo and is_object_id(head) else ""
        return self.causal(head) if head or self.paths else None


class Relation(enum.Enum):
    """Where the commit that a message was written against lies, seen from the tree's HEAD."""

    SAME = "same"
    BEHIND = "behind"
    """An ancestor."""
    APART = "apart"
    """Known here, and no ancestor."""
    MISSING = "missing"
    """Not known here."""
    UNSAID = "unsaid"
    """The sender did not say, or a shallow clone cannot tell."""


class Change(msgspec.Struct, frozen=True):
    """A commit that touched a file."""

    at: WallMs
    by: str


class FileSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A file whose content is not the fingerprint. Blobs are git's ids of contents, empty where there is none."""

    path: str
    exists: bool
    blob: str
    """Of what lies in the tree now."""
    blob_then: str
    """In the commit the message was written against."""
    blob_head: str
    """In HEAD."""
    written: WallMs
    """When the file was written, 0 when it does not exist."""
    changes: tuple[Change, ...] = ()
    """Newest first: what touched it on the way to HEAD."""


class TreeSeen(msgspec.Struct, frozen=True):
    head: str
    base: str
    """The commit that the message was written against (rule 2), empty where it is not known."""
    relation: Relation
    commits: int = 0
    """On the way from `base` to HEAD."""
    files: tuple[FileSeen, ...] = ()
    repo: str = ""


class Drift(msgspec.Struct, frozen=True):
    note: str
    is_stale: bool
    """False: something is to be said, but nothing that the message is about has moved."""


def drift(causal: Causal, seen: TreeSeen, written: WallMs) -> Drift | None:
    """What to say about a message written at `written`, by the clock of the tree's host."""
    moved = [file for file in seen.files if _has_moved(file, seen.relation, written)]
    names = _names(causal.paths)
    parts = [_file_part(file, names[file.path], seen.base, written) for file in moved]
    note = _joined(parts, _head_part(seen))
    return Drift(note, bool(moved) or seen.relation is Relation.BEHIND) if note else None


def _joined(files: Sequence[str], head: str) -> str:
    """As many of the files as there is room for; the rest is counted."""
    for shown in range(min(len(files), _MOST_FILES), -1, -1):
        left = len(files) - shown
        rest = f"{left} more file{'s' if left > 1 else ''} changed" if left else ""
        note = " · ".join(part for part in (*files[:shown], rest, head) if part)
        if len(note) <= NOTE_MOST:
            break
    return note


def _has_moved(file: FileSeen, relation: Relation, written: WallMs) -> bool:
    if file.blob_then and file.blob == file.blob_then:
        return False
    if relation in (Relation.APART, Relation.MISSING):
        return True
    if relation is not Relation.UNSAID:
        if not file.exists and not file.blob_then:
            return False  # it never was in this tree
        if file.changes or not file.exists:
            return True
    return file.exists and file.written >= written - _SLACK_MS


def _file_part(file: FileSeen, name: str, base: str, written: WallMs) -> str:
    is_loose = file.blob != file.blob_head
    if not file.exists:
        what = "was deleted, uncommitted" if is_loose else "was deleted"
    elif file.changes:
        what = f"changed {_times(len(file.changes))}"
    elif is_loose:
        what = "has an uncommitted change"
    else:
        what = "is not what its sender saw"
    first = file.changes[-1].at if file.changes else file.written
    if first and first >= written - _SLACK_MS:
        last = file.changes[0].at if file.changes else file.written
        what += f" since this was written ({_span(last - written)} later)"
    elif file.changes and base:
        what += f" since {base[:7]}"
    if file.changes:
        what += f", by {_authors(change.by for change in file.changes)}"
        if file.exists and is_loose:
            what += ", and has an uncommitted change"
    return f"{name} {what}"


def _head_part(seen: TreeSeen) -> str:
    head = seen.base
    match seen.relation:
        case Relation.BEHIND:
            return f"HEAD {head[:7]} → {seen.head[:7]}, {seen.commits} commit{'s' if seen.commits != 1 else ''}"
        case Relation.APART:
            return f"written against another branch ({head[:7]}, HEAD here is {seen.head[:7]})"
        case Relation.MISSING:
            return f"written against a commit that is not here ({head[:7]}, HEAD here is {seen.head[:7]})"
        case _:
            return ""


def _names(paths: Sequence[str]) -> dict[str, str]:
    """What each path is called: its last part, unless another one ends like it."""
    ends = Counter(path.rpartition("/")[2] for path in paths)
    return {path: end if ends[end := path.rpartition("/")[2]] == 1 else path for path in paths}


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _authors(names: Iterable[str]) -> str:
    """Each once, newest first; other people wrote them, so they are cleaned and cut."""
    cleaned = ("".join(c for c in name if c.isprintable()).strip()[:_NAME_MOST] or "somebody" for name in names)
    known = list(dict.fromkeys(cleaned))
    if len(known) > _MOST_AUTHORS:
        known[_MOST_AUTHORS:] = ["others"]
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} and {known[-1]}"


def _span(ms: int) -> str:
    seconds = max(0, ms) // 1000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
