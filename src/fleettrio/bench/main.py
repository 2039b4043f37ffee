"""`fleettrio bench`: which benchmarks there are, run one after the other, and what is done with their rows."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import msgspec

from fleettrio.bench import BENCHMARKS, report
from fleettrio.bench.context import ROUNDS, Context
from fleettrio.bench.environment import environment, load
from fleettrio.bench.recorded import append_csv, results_folder
from fleettrio.bench.results import ResultsUnreadable, Row, Run, fallen, read_results
from fleettrio.clients.cli.table import note, print_error
from fleettrio.errors import STOPPED, FleetTrioError
from fleettrio.testing.stopping import stopped_by_signals

__all__ = ("run_bench",)

_FELL = 3

Measure = Callable[[Context], Iterator[Row]]


def run_bench(
    names: Sequence[str],
    *,
    rounds: int = ROUNDS,
    json: pathlib.Path | None = None,
    compare: pathlib.Path | None = None,
    is_recorded: bool = False,
    profile: pathlib.Path | None = None,
) -> int:
    """Run these benchmarks. 0 done, 3 when a ratio fell below that of `compare`, 130 when it was stopped.

    `profile`: the hop is looked into instead of being measured, and drawn into this folder.
    What was found before it was stopped, or before one failed, is still printed and written; what was started has
    ended. Raises FleetTrioError when a benchmark cannot run, or one of the files is of no use.
    """
    earlier = read_results(compare) if compare else None
    if json is not None:
        _check_writable(json)
    folder = _results_folder() if is_recorded else None
    rows: list[Row] = []
    facts: dict[str, str] = {}
    load_before = load()
    try:
        with stopped_by_signals(), Context(rounds=rounds, profile=profile) as context:
            try:
                for name in names:
                    _measure(name, context, rows, folder, load_before)
            finally:
                context.progress.end()
                facts.update(environment(context.started_broker, load_before))
    except KeyboardInterrupt:
        note("stopped; everything that was started has ended")
        _show(names, rows, facts)
        return STOPPED
    except FleetTrioError:
        _show(names, rows, facts)
        raise
    _show(names, rows, facts)
    if json is not None:
        json.write_bytes(msgspec.json.format(msgspec.json.encode(Run(results=rows, environment=facts)), indent=1))
    return _compared(rows, earlier.results) if earlier else 0


def _measure(name: str, context: Context, rows: list[Row], folder: pathlib.Path | None, load_before: str) -> None:
    context.progress.begin(name)
    measure = cast(Measure, importlib.import_module(BENCHMARKS[name]).measure)
    found: list[Row] = []
    try:
        for row in measure(context):
            found.append(row)
            rows.append(row)
    finally:
        if folder is not None and found:
            append_csv(folder / f"{name}.csv", found, environment(context.started_broker, load_before))


def _show(names: Sequence[str], rows: Sequence[Row], facts: dict[str, str]) -> None:
    if not rows:
        return
    report.print_rows(rows)
    report.print_environment(facts)
    if len(names) > 1:
        report.print_goals(rows)


def _compared(rows: Sequence[Row], earlier: Sequence[Row]) -> int:
    sentences = fallen(rows, earlier)
    for sentence in sentences:
        print_error(sentence)
    return _FELL if sentences else 0


def _check_writable(file: pathlib.Path) -> None:
    """Minutes of measuring must not end at a file that cannot be written. Leaves no empty one behind."""
    is_new = not file.exists() and not file.is_symlink()
    try:
        file.open("ab").close()
        if is_new:
            file.unlink()
    except OSError as problem:
        raise ResultsUnreadable(f"{file} cannot be written: {problem.strerror}", hint="name another file") from None


def _results_folder() -> pathlib.Path:
    folder = results_folder()
    if folder is None:
        raise ResultsUnreadable(
            "there is no benchmarks/results to record into: fleettrio does not run from a checkout",
            hint="leave --record out, or run it in a checkout",
        )
    return folder
