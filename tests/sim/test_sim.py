"""The promises hold in a thousand worlds, each with its own accidents (`tests.sim.run`)."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.sim.run import run_seed
from tests.sim.seeds import LEAST_EVENTS, Tally, once_failed

CHUNK = 125
SEEDS = int(os.environ.get("FLEETTRIO_SIM_SEEDS", "1000"))


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_the_promises_hold_whatever_happens(first: int, record_property: Callable[[str, object], None]) -> None:
    tally = Tally()
    for seed in range(first, first + CHUNK):
        tally.add(run_seed(seed))
    record_property("struck", dict(tally.struck))
    record_property("runs", tally.runs)
    assert tally.failed == [], "\n".join(tally.told())
    assert tally.rare == [], "\n".join(tally.told())
    assert tally.fewest_events >= LEAST_EVENTS


def test_the_promises_hold_where_they_once_were_broken() -> None:
    assert [run for seed in once_failed() if (run := run_seed(seed)).broken] == []


def test_the_same_seed_is_the_same_run() -> None:
    assert [run_seed(seed) for seed in (3, 7)] == [run_seed(seed) for seed in (3, 7)]
    assert run_seed(3).digest != run_seed(7).digest
