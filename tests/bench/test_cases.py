"""The small cases do what they count, and nothing that happens once is taken for the cost of an item."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fleettrio import _pure
from fleettrio.bench.cases import CASES, WAYS, cost
from fleettrio.bench.instructions import COUNTED


def test_what_is_counted_is_a_case() -> None:
    assert COUNTED.keys() <= CASES.keys() | WAYS.keys()


@pytest.mark.parametrize("name", [name for name in CASES if name != "seen"])
def test_each_case_of_a_twin_runs(name: str) -> None:
    case = CASES[name](_pure)
    case.run(1)
    assert case.items >= 1


@pytest.mark.parametrize("name", list(WAYS))
def test_a_fresh_process_does_not_take_its_imports_for_the_cost_of_a_message(name: str) -> None:
    warm = WAYS[name]()
    command = [sys.executable, "-m", "fleettrio.bench.cases", name]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)
    # An import would make it a hundred times as much; a busy machine does not.
    assert float(done.stdout) < 20 * cost(warm)
