"""The clock's shift: what a person may set it to."""

from __future__ import annotations

import time

import pytest

from fleettrio.clock import SystemClock
from fleettrio.errors import ConfigError

YEAR_MS = 365 * 24 * 60 * 60 * 1000


@pytest.mark.parametrize("years", [-10, 10])
def test_the_wall_clock_is_shifted_by_up_to_ten_years(years: int) -> None:
    clock = SystemClock({"FLEETTRIO_CLOCK_OFFSET_MS": str(years * YEAR_MS)})
    assert abs(clock.wall() - years * YEAR_MS - time.time() * 1000) < 60_000


@pytest.mark.parametrize("text", ["9" * 18, "-" + "9" * 18, str(10 * YEAR_MS + 1), "9" * 5_000, "soon"])
def test_a_shift_that_is_absurd_is_refused_in_words(text: str) -> None:
    with pytest.raises(ConfigError, match="FLEETTRIO_CLOCK_OFFSET_MS"):
        SystemClock({"FLEETTRIO_CLOCK_OFFSET_MS": text})
