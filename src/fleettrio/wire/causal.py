"""The `causal` field of a header: what the sender believed about the recipient's work tree when it wrote.

Rules:
1. A repository is named by the id of its first commit, never by a path. A path is relative to the top of the work tree
   and can name nothing outside of it, nor git's own files.
2. The whole is small: it travels within a header of 4 KiB.
3. It informs and decides nothing about trust. One that cannot be read costs its message the note, never the delivery.
"""

from __future__ import annotations

import re
from typing import Annotated, Self

from fleettrio.errors import MalformedEnvelope
from fleettrio.wire.plain import dump_plain, load_plain
from fleettrio.wire.records import Record, bytes_of, form, list_of

__all__ = (
    "MAX_BRANCH",
    "MAX_CAUSAL",
    "MOST_PATHS",
    "Causal",
    "is_branch",
    "is_object_id",
    "is_tree_path",
    "read_causal",
)

MAX_CAUSAL = 3 * 1024
"""Bytes; the rest of a header needs under 1 KiB."""
MOST_PATHS = 24
MAX_BRANCH = 128
"""Bytes."""
_MAX_PATH = 512
_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def is_object_id(text: str) -> bool:
    """True for a whole git object id, SHA-1 or SHA-256, in lower case."""
    return _OBJECT_ID.fullmatch(text) is not None


def is_tree_path(path: str) -> bool:
    """True for a path that stays inside a work tree whatever the tree holds, symlinks apart."""
    parts = path.split("/")
    return (
        path.isprintable()
        and len(path.encode("utf-8", "surrogateescape")) <= _MAX_PATH
        and all(part not in ("", ".", "..") and part.lower() != ".git" for part in parts)
    )


def is_branch(name: str) -> bool:
    """True for a branch that can be told: it is compared, and never shown nor given to git."""
    return name.isprintable() and len(name.encode("utf-8", "surrogateescape")) <= MAX_BRANCH


_an_object_id = form("a whole commit id in lower case", is_object_id)
_a_tree_path = form(f"relative paths inside a work tree, at most {_MAX_PATH} bytes each", is_tree_path)
_a_branch = form(f"the name of a branch, at most {MAX_BRANCH} bytes", is_branch)


class Causal(Record, frozen=True, kw_only=True):
    """`fingerprints` has the SHA-256 of the content of each of `paths`, in their order."""

    repo: Annotated[str, _an_object_id]
    """Id of the first commit."""
    head: Annotated[str, _an_object_id] = ""
    """The commit that the recipient's tree was believed to be at; empty: the sender did not know."""
    own_head: Annotated[str, _an_object_id] = ""
    """The commit that the sender's own tree was at, where that is another one and on a branch."""
    own_branch: Annotated[str, _a_branch] = ""
    """The branch that the sender's own tree was on; empty without `own_head`."""
    paths: Annotated[tuple[Annotated[str, _a_tree_path], ...], list_of(MOST_PATHS)] = ()
    fingerprints: Annotated[tuple[Annotated[bytes, bytes_of(32)], ...], list_of(MOST_PATHS)] = ()

    def to_bytes(self) -> bytes:
        """The canonical bytes. Raises `MalformedEnvelope` for what `from_bytes` would not take."""
        data = dump_plain(self.to_map())
        self.from_bytes(data)
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The belief in `data`. Raises `MalformedEnvelope`; the size is judged first."""
        causal = cls.from_map(load_plain(data, what="causal", limit=MAX_CAUSAL, depth=2))
        if len(causal.paths) != len(causal.fingerprints):
            raise MalformedEnvelope("causal: as many fingerprints as paths are needed")
        if len(set(causal.paths)) != len(causal.paths):
            raise MalformedEnvelope("causal: a path appears twice")
        return causal


def read_causal(field: bytes | None) -> Causal | None:
    """The belief in a header's field; None when there is none, or none that can be read (rule 3)."""
    try:
        return Causal.from_bytes(field) if field is not None else None
    except MalformedEnvelope:
        return None
