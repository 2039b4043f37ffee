"""The gate: what is red, what it says of it, and that its file is read or refused."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from fleettrio import _accel
from fleettrio.bench.gate import ENCODED_TWICE, Bound, GatesUnreadable, main, read_gates, red
from fleettrio.bench.instructions import COUNTED, CountingFailed, count_all
from fleettrio.bench.patches import patched

ROOT = pathlib.Path(__file__).parents[2]


def test_a_figure_beyond_its_bound_is_red_and_told_with_both() -> None:
    kept = [Bound("encode, instructions", 90.0, 100.0, is_most=True), Bound("sending", 2.0, 1.5)]
    broken = [Bound("encode, instructions", 110.0, 100.0, is_most=True), Bound("sending", 1.0, 1.5)]
    assert red(kept) == []
    assert red([*kept, *broken]) == [
        "encode, instructions: 110, at most 100 is allowed",
        "sending: 1.00, at least 1.50 is allowed",
    ]


def test_the_bounds_that_are_kept_are_of_cases_that_there_are() -> None:
    gates = read_gates(ROOT / "benchmarks" / "gates.toml")
    assert set(gates.instructions) == set(COUNTED)
    assert set(gates.compiled) == set(COUNTED)
    assert set(gates.hop) == {"sending", "receiving"}


@pytest.mark.parametrize("content", ["", "python = 3", 'python = "3.11"\n[hop]\nsending = "fast"', "[[", "\x00"])
def test_bounds_that_cannot_be_read_are_an_error_that_names_the_file(tmp_path: pathlib.Path, content: str) -> None:
    file = tmp_path / "gates.toml"
    file.write_text(content)
    with pytest.raises(GatesUnreadable, match=r"gates\.toml"):
        read_gates(file)
    with pytest.raises(GatesUnreadable, match="No such file"):
        read_gates(tmp_path / "none.toml")


def test_a_plant_that_nobody_knows_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--plant", "slow"])
    assert ended.value.code == 2
    assert "invalid choice: 'slow'" in capsys.readouterr().err


def test_what_is_planted_doubles_the_compiled_twin_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("valgrind") is None:  # only Debian's set-up installs it
        with pytest.raises(CountingFailed, match="valgrind is not on PATH"):
            count_all(["encode"])
        return
    is_pure = _accel.IMPLEMENTATION == "pure"
    before = count_all(["encode", "decode"], is_pure=is_pure)
    for name, value in patched(tmp_path, ENCODED_TWICE).items():
        monkeypatch.setenv(name, value)
    after = count_all(["encode", "decode"], is_pure=is_pure)
    assert (0.95 if is_pure else 1.8) < after["encode"] / before["encode"] < (1.05 if is_pure else 2.2)
    assert 0.95 < after["decode"] / before["decode"] < 1.05
