"""Pauses between looks: what comes at once is seen at once, what takes its time is not looked at all the time."""

from __future__ import annotations

import trio
import trio.testing

from fleettrio.local.pauses import Pauses


async def test_pauses_begin_short_and_double_up_to_the_longest(autojump_clock: trio.testing.MockClock) -> None:
    pauses, took = Pauses(0.02, first_s=0.001), list[float]()
    for _ in range(7):
        began = trio.current_time()
        await pauses.pause()
        took.append(round(1000 * (trio.current_time() - began), 6))
    assert took == [1, 2, 4, 8, 16, 20, 20]


async def test_the_first_pause_is_no_longer_than_the_longest(autojump_clock: trio.testing.MockClock) -> None:
    pauses, began = Pauses(0.001, first_s=0.005), trio.current_time()
    await pauses.pause()
    assert trio.current_time() - began < 0.0011
