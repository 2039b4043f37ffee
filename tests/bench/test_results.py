"""What a row of the benchmark says: ratios that read the same for every unit, verdicts, what counts as fallen."""

from __future__ import annotations

import csv
import pathlib

import msgspec
import pytest

from fleettrio.bench.recorded import append_csv
from fleettrio.bench.report import figure, print_goals, print_rows
from fleettrio.bench.results import (
    ResultsUnreadable,
    Row,
    Run,
    at_most,
    fallen,
    no_figure,
    read_results,
    row,
    times_as_good,
)
from fleettrio.bench.samples import Samples, interleaved


def a_row(ratio: float, **more: object) -> Row:
    return msgspec.structs.replace(
        row("G1", "encode", "µs", Samples((1.0,)), Samples((ratio,)), peer_name="cbor2"), **more
    )


def test_a_ratio_says_how_many_times_as_good_we_are_whatever_the_unit() -> None:
    faster = row("G1", "encode", "µs", Samples((2.0, 2.0)), Samples((20.0, 22.0)), goal=times_as_good(10))
    more = row("G5", "hop", "msg/s", Samples((500.0,)), Samples((250.0,)), goal=times_as_good(3.5))
    assert (faster.ratio, faster.met, faster.verdict) == (10.5, True, "met")
    assert (more.ratio, more.met, more.verdict) == (2.0, False, "missed")


def test_a_goal_can_be_about_the_figure_itself() -> None:
    assert row("G7", "cpu", "µs", Samples((79.0,)), goal=at_most(80)).met
    assert row("G7", "cpu", "µs", Samples((81.0,)), goal=at_most(80)).verdict == "missed"


def test_a_peer_that_did_far_worse_than_it_should_takes_the_verdict_away() -> None:
    found = row("G5", "hop", "msg/s", Samples((9.0,)), Samples((1.0,)), goal=times_as_good(1), suspect=True)
    assert (found.met, found.verdict) == (None, "suspect")


def test_what_was_counted_wrong_has_no_figure_and_says_why() -> None:
    found = no_figure("G5", "hop", "msg/s", "2 of 400 never came", goal=times_as_good(1))
    assert (found.measured, found.verdict, found.notes) == (None, "no figure", ("2 of 400 never came",))


def test_a_ratio_below_its_floor_is_named_and_one_above_is_not() -> None:
    earlier = [a_row(10.0)]
    assert fallen([a_row(8.1)], earlier) == []
    assert fallen([a_row(7.9)], earlier) == ["G1: 7.90 × as good as cbor2, at least 8.00 × before"]


def test_a_ratio_that_is_gone_fell_and_another_benchmarks_rows_are_let_be() -> None:
    earlier = [a_row(10.0), a_row(3.0, id="G5")]
    assert fallen([no_figure("G1", "encode", "µs", "the peer is missing")], earlier) == [
        "G1: no ratio any more, at least 8.00 × before (the peer is missing)"
    ]


def test_compiled_and_pure_rows_are_compared_with_their_own() -> None:
    earlier = [a_row(10.0, implementation="compiled"), a_row(1.0, implementation="pure")]
    assert fallen([a_row(1.0, implementation="pure")], earlier) == []


def test_a_run_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    run = Run(results=[a_row(10.0)], environment={"commit": "abc"})
    file = tmp_path / "out.json"
    file.write_bytes(msgspec.json.encode(run))
    assert read_results(file) == run
    (found,) = msgspec.json.decode(file.read_bytes())["results"]
    assert {"id", "measured", "peer", "ratio", "goal", "met"} <= found.keys()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"results": 3}', b"\xff\xfe"])
def test_a_file_that_is_no_run_is_an_error_that_names_it(tmp_path: pathlib.Path, content: bytes) -> None:
    file = tmp_path / "out.json"
    file.write_bytes(content)
    with pytest.raises(ResultsUnreadable, match=r"out\.json"):
        read_results(file)
    with pytest.raises(ResultsUnreadable, match="missing"):
        read_results(tmp_path / "missing")


def test_csv_lines_name_commit_and_machine_and_are_added(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "hop.csv"
    facts = {"commit": "abc", "machine": "2 × a processor", "load": "9"}
    append_csv(file, [a_row(10.0, at={"body": 1024.0})], facts)
    append_csv(file, [no_figure("G1", "encode", "µs", "why")], facts)
    first, second = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    assert (first["commit"], first["machine"], first["ratio"], first["at"]) == (
        "abc",
        "2 × a processor",
        "10",
        "body=1024",
    )
    assert (second["id"], second["measured"]) == ("G1", "")


def test_every_line_of_a_table_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        a_row(10.0, title="a title that is much longer than a column", goal="≥ 3.5 ×", met=True, implementation=way)
        for way in ("compiled", "pure")
    ]
    print_rows(rows)
    print_goals(rows)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "Compiled" in lines
    assert "Pure" in lines
    assert "1 of 14 goals met" in lines


def test_figures_have_three_digits_and_thousands_apart() -> None:
    assert [figure(value) for value in (4812.3, 41.25, 4.125, 0.4125, None)] == ["4 812", "41.2", "4.12", "0.412", "-"]


def test_cases_take_turns_and_every_other_round_goes_backwards() -> None:
    order: list[str] = []

    def case(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = interleaved({name: lambda name=name: case(name) for name in "ab"}, 2)  # type: ignore[misc]
    assert order == ["a", "b", "b", "a"]
    assert found["a"].values == (1.0, 4.0)
