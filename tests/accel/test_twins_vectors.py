"""Both implementations pass the frozen vectors, and the vectors are what their maker makes."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from fleettrio.errors import MalformedEnvelope
from tests.accel.twins import TWINS
from tests.vectors.load import FILE, VECTORS, named

each_twin = pytest.mark.parametrize("twin", TWINS, ids=lambda module: module.__name__.rpartition("_")[2])


def real(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for name, value in fields.items()}


@each_twin
@pytest.mark.parametrize("case", named("headers"))
def test_header_is_canonical_both_ways(twin: ModuleType, case: dict[str, Any]) -> None:
    fields, canonical = real(case["fields"]), bytes.fromhex(case["canonical"])
    assert twin.encode_header(fields) == canonical
    decoded = twin.decode_header(canonical)
    assert decoded == fields
    assert [type(decoded[name]) for name in fields] == [type(value) for value in fields.values()]


@each_twin
@pytest.mark.parametrize("case", named("refusedHeaders"))
def test_refused_header(twin: ModuleType, case: dict[str, Any]) -> None:
    with pytest.raises(MalformedEnvelope):
        twin.decode_header(bytes.fromhex(case["bytes"]))


@each_twin
@pytest.mark.parametrize("case", VECTORS["batches"], ids=lambda case: f"batch of {case['n']}")
def test_batch(twin: ModuleType, case: dict[str, Any]) -> None:
    leaves = [bytes.fromhex(leaf) for leaf in case["leaves"]]
    root, proofs = twin.merkle(leaves)
    assert root == bytes.fromhex(case["root"])
    for message in case["messages"]:
        header, body, proof = (bytes.fromhex(message[name]) for name in ("header", "body", "proof"))
        leaf = twin.leaf_of(header, body)
        assert leaf == leaves[message["index"]] == bytes.fromhex(message["leaf"])
        assert proofs[message["index"]] == proof
        assert twin.root_of(leaf, proof) == (root, case["n"])
    key, sig, signed = (bytes.fromhex(case[name]) for name in ("publicKey", "sig", "signed"))
    assert twin.verify_many([(key, sig, signed), (key, sig, signed + b"\0")]) == [True, False]


@each_twin
@pytest.mark.parametrize("case", named("refusedProofs"))
def test_refused_proof(twin: ModuleType, case: dict[str, Any]) -> None:
    with pytest.raises(MalformedEnvelope):
        twin.root_of(bytes.fromhex(case["leaf"]), bytes.fromhex(case["proof"]))


def test_the_maker_makes_what_is_committed(tmp_path: pathlib.Path) -> None:
    made = tmp_path / "made.json"
    # Isolated: it could not import fleettrio from the source tree if it wanted to.
    subprocess.run([sys.executable, "-I", str(FILE.with_name("make.py")), str(made)], check=True)
    assert made.read_text() == FILE.read_text()
    assert "fleettrio" not in [
        line.split()[1].partition(".")[0]
        for line in FILE.with_name("make.py").read_text().splitlines()
        if line.startswith(("import ", "from "))
    ]
