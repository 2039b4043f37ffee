"""What is drawn of recorded figures, and what is said when nothing can be."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

from fleettrio.bench.plot import Line, PlotImpossible, pictures, plot
from fleettrio.bench.recorded import append_csv, newest, read_csv
from fleettrio.bench.results import ResultsUnreadable, Row, no_figure
from fleettrio.clients.cli.main import run

FACTS = {"commit": "abc1234", "machine": "2 × a processor", "load": "0.1 0.2 0.3"}


def a_row(id: str, measured: float, **more: object) -> Row:  # noqa: A002 - what it is called in the results
    row = Row(id=id, title="hop", unit="msg/s", measured=measured, implementation="compiled")
    return Row(**{name: getattr(row, name) for name in Row.__struct_fields__} | more)


def load_rows(scale: float = 1.0) -> list[Row]:
    return [
        a_row(f"curve.in-flight.{size}", scale * rate, peer=2 * rate, peer_name="pika", at={"in flight": float(size)})
        for size, rate in ((64, 3000.0), (1, 100.0))
    ]


@pytest.fixture
def small(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "curve.csv"
    waits = [
        a_row("curve.in-flight.1.p50", 8.0, unit="ms", title="half of them", at={"in flight": 1.0}),
        a_row("curve.in-flight.64.p50", 21.0, unit="ms", title="half of them", at={"in flight": 64.0}),
        a_row("G7", 99.0, unit="µs"),
        no_figure("curve.in-flight.8", "hop", "msg/s", "the counts do not match", at={"in flight": 8.0}),
    ]
    append_csv(file, [*load_rows(0.5), *load_rows(), *waits], FACTS)
    return file


def test_a_row_is_read_as_it_was_recorded(tmp_path: pathlib.Path) -> None:
    rows = [
        *load_rows(),
        a_row("G1", 0.4, met=False, suspect=True, goal="≥ 10 ×", ratio=9.0, lane="fast", fsync="FULL", spread=0.05),
        no_figure("G2", "decode", "µs", "why"),
    ]
    append_csv(tmp_path / "a.csv", rows, FACTS)
    found = read_csv(tmp_path / "a.csv")
    assert [one.row for one in found[:3]] == rows[:3]
    assert (found[3].row.id, found[3].row.measured, found[3].row.met) == ("G2", None, None)
    assert {(one.commit, one.machine, one.load) for one in found} == {tuple(FACTS.values())}


def test_a_picture_has_a_panel_for_each_unit_and_a_line_for_us_and_for_the_peer(small: pathlib.Path) -> None:
    (picture,) = pictures(read_csv(small))
    assert picture.file_name == "in-flight.png"
    assert picture.panels == {
        "msg/s": (
            Line("hop (compiled)", ((1.0, 100.0), (64.0, 3000.0))),
            Line("pika", ((1.0, 200.0), (64.0, 6000.0)), is_peer=True),
        ),
        "ms": (Line("half of them (compiled)", ((1.0, 8.0), (64.0, 21.0))),),
    }
    assert "abc1234" in picture.made_on


def test_of_each_figure_the_newest_counts(small: pathlib.Path) -> None:
    assert newest(read_csv(small))["curve.in-flight.64 compiled"].row.measured == 3000.0


def test_pictures_are_drawn_or_it_is_said_what_to_install(small: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        with pytest.raises(PlotImpossible, match="matplotlib"):
            plot([small], tmp_path / "pictures")
        return
    (file,) = plot([small], tmp_path / "pictures")
    assert file == tmp_path / "pictures" / "in-flight.png"
    assert file.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_command_that_installs_it_is_named(
    small: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    assert run(["bench", "plot", str(small)]) == 3
    assert "python -m pip install 'matplotlib>=3.9'" in capsys.readouterr().err


def test_figures_of_one_size_are_nothing_to_draw(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "micro.csv"
    append_csv(file, [a_row("G1", 1.0)], FACTS)
    with pytest.raises(PlotImpossible, match=r"micro\.csv"):
        plot([file], tmp_path)


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "when,commit\nnow\n", "\xff"])
def test_a_file_that_is_no_csv_of_a_benchmark_is_an_error_that_names_it(tmp_path: pathlib.Path, content: str) -> None:
    file = tmp_path / "other.csv"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(ResultsUnreadable, match=r"other\.csv"):
        read_csv(file)
    with pytest.raises(ResultsUnreadable, match="missing"):
        read_csv(tmp_path / "missing.csv")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hop", "some.csv"], "for plot, not for hop"),
        (["micro", "--out", "here"], "for plot, not for micro"),
        (["plot", "--record"], "measures nothing"),
    ],
)
def test_what_does_not_go_together_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
