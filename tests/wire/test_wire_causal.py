"""The `causal` field: both ways, and what a hostile sender may not put into it."""

from __future__ import annotations

from typing import Any

import pytest

from fleettrio.errors import MalformedEnvelope
from fleettrio.wire.causal import MAX_CAUSAL, MOST_PATHS, Causal, is_tree_path
from fleettrio.wire.plain import dump_plain
from tests.vectors.load import named

REPO, HEAD, PRINT = "a" * 40, "b" * 64, b"\1" * 32


def fields(**changed: Any) -> bytes:
    return dump_plain({"repo": REPO, "head": HEAD, "paths": ["src/herdr.rs"], "fingerprints": [PRINT]} | changed)


@pytest.mark.parametrize(
    "causal",
    [
        Causal(repo=REPO),
        Causal(repo=REPO, head=HEAD, own_head="c" * 40, own_branch="feature/né"),
        Causal(repo=REPO, head=HEAD, paths=("src/herdr.rs", "naïve file.md"), fingerprints=(PRINT, b"\2" * 32)),
    ],
)
def test_a_belief_comes_back_as_it_was(causal: Causal) -> None:
    assert Causal.from_bytes(causal.to_bytes()) == causal


@pytest.mark.parametrize("case", named("causals"))
def test_frozen_vectors_are_read_and_written(case: dict[str, Any]) -> None:
    causal = Causal(
        repo=case["repo"],
        head=case["head"],
        paths=tuple(case["paths"]),
        fingerprints=tuple(bytes.fromhex(each) for each in case["fingerprints"]),
    )
    assert causal.to_bytes().hex() == case["hex"]
    assert Causal.from_bytes(bytes.fromhex(case["hex"])) == causal


def test_unknown_keys_of_a_later_version_are_ignored() -> None:
    assert Causal.from_bytes(fields(later=[1])).paths == ("src/herdr.rs",)


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../outside", "a/../../outside", "a/./b", "a//b", "", "a/", ".", "a\0b", "a\nb", "\x1b[2J"),
        *(".git/config", "sub/.GIT/hooks/pre-commit", "x" * 513, "é" * 300),
    ],
)
def test_a_path_stays_inside_the_work_tree(path: str) -> None:
    assert not is_tree_path(path)
    with pytest.raises(MalformedEnvelope, match="paths"):
        Causal.from_bytes(fields(paths=[path]))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(fields(paths=[f"f{i}" for i in range(10_000)]), id="10 000 paths"),
        pytest.param(
            fields(paths=[f"{i}" for i in range(MOST_PATHS + 1)], fingerprints=[PRINT] * (MOST_PATHS + 1)),
            id="one path too many",
        ),
        pytest.param(fields(paths=["a", "a"], fingerprints=[PRINT, PRINT]), id="a path twice"),
        pytest.param(fields(fingerprints=[]), id="a path without a fingerprint"),
        pytest.param(fields(fingerprints=[b"short"]), id="a short fingerprint"),
        pytest.param(fields(fingerprints=["text" * 8]), id="a fingerprint of another type"),
        pytest.param(fields(repo="/home/me/project"), id="a repository named by a path"),
        pytest.param(fields(head="--output=/tmp/x"), id="a head that is an option"),
        pytest.param(fields(head="HEAD"), id="a head that is a name"),
        pytest.param(fields(head="f4f9a9d"), id="a head cut short"),
        pytest.param(fields(paths=[[["deep"]]]), id="nested too deep"),
        pytest.param(dump_plain({"paths": []}), id="no repository"),
        pytest.param(dump_plain([REPO]), id="not a map"),
        pytest.param(b"\xd8\x1c" * 700, id="tags within tags"),
        pytest.param(b"\xa1drepo", id="cut off"),
        pytest.param(b"\xff" * MAX_CAUSAL, id="noise"),
        pytest.param(b"\0" * (MAX_CAUSAL + 1), id="too long"),
    ],
)
def test_a_hostile_belief_is_refused_before_anything_is_done_with_it(data: bytes) -> None:
    with pytest.raises(MalformedEnvelope):
        Causal.from_bytes(data)


def test_most_paths_fit_into_a_header() -> None:
    paths = tuple(f"crates/adapters/src/some_module_{i:02}/herdr_{i:02}.rs" for i in range(MOST_PATHS))
    assert len(Causal(repo=HEAD, head=HEAD, paths=paths, fingerprints=(PRINT,) * MOST_PATHS).to_bytes()) <= MAX_CAUSAL
