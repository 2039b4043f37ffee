"""The page on performance says what was recorded, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from fleettrio.bench.recorded import append_csv
from fleettrio.bench.results import Row, no_figure
from tests.bench.page import PAGE, TABLES, draw, prose, recorded, tables_on_page

FLAMES = PAGE.parent / "performance"
FIGURE = re.compile(r"\d[\d .,]* ?(?:µs|ms|s|msg/s|ids/s|MB/s|%|×|MiB|bytes)(?!\w)")


@pytest.mark.parametrize("name", list(tables_on_page()))
def test_each_table_of_the_page_is_what_was_recorded(name: str) -> None:
    assert tables_on_page()[name] == TABLES[name](recorded()), "`make docs` draws it anew"


def test_no_figure_stands_outside_the_tables() -> None:
    assert FIGURE.findall(prose()) == []


@pytest.mark.parametrize("picture", sorted(FLAMES.rglob("*.svg")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_flame_graph_is_small_and_names_no_place_of_a_machine(picture: Path) -> None:
    svg = picture.read_text("utf-8")
    assert len(svg) < 100_000
    assert re.findall(r"[( ]/[^<)]*", svg) == []
    assert "(fleettrio/core/gateway.py:" in svg


def test_every_table_is_on_the_page() -> None:
    assert tables_on_page().keys() == TABLES.keys()


def test_a_table_has_the_newest_figures_and_says_what_is_missing(tmp_path: Path) -> None:
    page, results = tmp_path / "performance.md", tmp_path / "results"
    results.mkdir()
    page.write_text(
        "Words.\n\n<!-- figures: goals -->\n<!-- end -->\n<!-- figures: growth -->\nold\n<!-- end -->\n", "utf-8"
    )
    rows = [
        Row(id="G7", title="CPU", unit="µs", measured=measured, implementation="compiled", goal="≤ 80 µs", met=is_met)
        for measured, is_met in ((210.0, False), (79.0, True))
    ]
    append_csv(results / "hop.csv", [*rows, no_figure("G5", "hop", "msg/s", "why", implementation="pure")], {})
    draw(page, results)
    text = page.read_text("utf-8")
    assert text.startswith("Words.\n\n")
    assert "| G7 | CPU | 79.0 µs | 0% | – | – | ≤ 80 µs | met |" in text
    assert "210" not in text
    assert "1 of 14 goals met" in text
    assert "<!-- figures: growth -->\nNothing of it is recorded.\n<!-- end -->" in text


def test_a_curve_has_a_line_for_each_point_with_all_that_was_measured_there(tmp_path: Path) -> None:
    page, results = tmp_path / "performance.md", tmp_path / "results"
    results.mkdir()
    page.write_text("<!-- figures: curves -->\n<!-- end -->\n", "utf-8")
    rate = Row(id="curve.body.1024", title="hop", unit="msg/s", measured=3_100.0, at={"body": 1024.0})
    rate = msgspec.structs.replace(rate, implementation="compiled", peer=4_000.0, peer_name="pika")
    median = msgspec.structs.replace(rate, id="curve.body.1024.p50", unit="ms", measured=40.0, peer=None)
    append_csv(results / "curve.csv", [rate, median], {})
    draw(page, results)
    assert "| 1 024 bytes | 3 100 msg/s | – | pika 4 000 msg/s | 40.0 ms | – |" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("load", "said"), [("0.4 9.0 9.0", "had nothing else to do"), ("17.3 1.0 1.0", "**The machine was busy**")]
)
def test_the_page_says_at_once_when_the_machine_was_busy(tmp_path: Path, load: str, said: str) -> None:
    row = Row(id="G7", title="CPU", unit="µs", measured=79.0)
    append_csv(tmp_path / "hop.csv", [row], {"load": load, "machine": "2 × a processor"})
    assert said in TABLES["load"](recorded(tmp_path))


def test_a_page_is_drawn_twice_as_once(tmp_path: Path) -> None:
    copy = tmp_path / "performance.md"
    copy.write_bytes(PAGE.read_bytes())
    draw(copy)
    assert copy.read_bytes() == PAGE.read_bytes()
