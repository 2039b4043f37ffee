"""What a run of `fleettrio bench` leaves behind when it does not come to its end."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import threading
import types
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from fleettrio.bench import BENCHMARKS
from fleettrio.bench.context import Context
from fleettrio.bench.main import run_bench
from fleettrio.bench.results import Row
from fleettrio.errors import FleetTrioError
from fleettrio.testing.stopping import run_until_stopped, stopped_by_signals


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a benchmark that cannot run here."""

    class Failing(types.ModuleType):
        @staticmethod
        def measure(_context: Context) -> Iterator[Row]:
            yield from ()
            raise FleetTrioError("it cannot run here")

    monkeypatch.setitem(sys.modules, "failing_benchmark", Failing("failing_benchmark"))
    monkeypatch.setitem(BENCHMARKS, "failing", "failing_benchmark")
    return "failing"


def test_a_run_that_fails_leaves_no_empty_file_and_an_earlier_one_as_it_was(tmp_path: pathlib.Path, fails: str) -> None:
    new, earlier = tmp_path / "new.json", tmp_path / "earlier.json"
    earlier.write_text("{}", "utf-8")
    for file in (new, earlier):
        with pytest.raises(FleetTrioError, match="cannot run here"):
            run_bench([fails], rounds=1, json=file)
    assert not new.exists()
    assert earlier.read_text("utf-8") == "{}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_runs_under_trio_is_ended_in_order_before_the_run_stops(number: signal.Signals) -> None:
    ended: list[str] = []

    async def stays() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            ended.append("in order")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stays)
            await trio.testing.wait_all_tasks_blocked()
            threading.Thread(target=os.kill, args=(os.getpid(), number)).start()

    with stopped_by_signals(), pytest.raises(KeyboardInterrupt):
        run_until_stopped(main)
    assert ended == ["in order"]


def test_what_goes_wrong_under_trio_comes_as_it_is() -> None:
    async def main() -> None:
        async with trio.open_nursery():
            raise FleetTrioError("the counts do not match")

    with pytest.raises(FleetTrioError, match="the counts do not match"):
        run_until_stopped(main)
