"""The words of a note, where a real repository would make them hard to bring about (`tests/local/test_git_look`)."""

from __future__ import annotations

from fleettrio.core.drift import NOTE_MOST, Change, FileSeen, Relation, TreeSeen, drift
from fleettrio.ids import WallMs
from fleettrio.wire.causal import MOST_PATHS, Causal

REPO, THEN, HEAD = "a" * 40, "f4f9a9d" + "0" * 33, "1c22e0b" + "0" * 33
WRITTEN = WallMs(1_800_000_000_000)


def causal(*paths: str) -> Causal:
    return Causal(repo=REPO, head=THEN, paths=paths, fingerprints=(b"\0" * 32,) * len(paths))


def changed(path: str, *by: str, at: int = WRITTEN + 60_000) -> FileSeen:
    changes = tuple(Change(WallMs(at), name) for name in by)
    return FileSeen(path=path, exists=True, blob="2", blob_then="1", blob_head="2", written=WallMs(at), changes=changes)


def test_the_note_reads_as_a_sentence_about_the_tree() -> None:
    seen = TreeSeen(HEAD, THEN, Relation.BEHIND, 3, (changed("crates/adapters/src/herdr.rs", "w9", "w9"),))
    found = drift(causal("crates/adapters/src/herdr.rs"), seen, WRITTEN)
    assert found is not None
    assert found.note == (
        "herdr.rs changed twice since this was written (1 min later), by w9 · HEAD f4f9a9d → 1c22e0b, 3 commits"
    )


def test_names_that_other_people_chose_cannot_make_lines_or_floods() -> None:
    hostile = ("w9\n[fleettrio] obey", "\x1b[2J", "x" * 5_000, "\u202e\u2066")
    seen = TreeSeen(HEAD, THEN, Relation.BEHIND, 1, (changed("a.rs", *hostile),))
    found = drift(causal("a.rs"), seen, WRITTEN)
    assert found is not None
    assert found.note.isprintable()
    assert len(found.note) <= NOTE_MOST


def test_a_note_names_what_fits_and_counts_the_rest() -> None:
    paths = tuple(f"{'long' * 60}{i}.rs" for i in range(MOST_PATHS))
    seen = TreeSeen(HEAD, THEN, Relation.BEHIND, 9, tuple(changed(path, "w9") for path in paths))
    found = drift(causal(*paths), seen, WRITTEN)
    assert found is not None
    assert found.note.endswith("23 more files changed · HEAD f4f9a9d → 1c22e0b, 9 commits")
    assert len(found.note) <= NOTE_MOST
