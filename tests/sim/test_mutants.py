"""The simulation finds what it is there to find: each gateway with one broken rule breaks a promise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sim.mutants import MUTANTS, Mutant, first_broken


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_rule_breaks_a_promise(mutant: Mutant, record_property: Callable[[str, object], None]) -> None:
    run = first_broken(mutant)
    assert run is not None
    record_property("mutant", f"{mutant.name}: seed {run.seed}, {run.broken[0]}")


def test_a_mutant_leaves_nothing_behind() -> None:
    for mutant in MUTANTS:
        before = [getattr(owner, name) for owner, name, _ in mutant.replaced]
        with mutant.alive():
            assert [getattr(owner, name) for owner, name, _ in mutant.replaced] != before
        assert [getattr(owner, name) for owner, name, _ in mutant.replaced] == before
