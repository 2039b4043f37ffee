"""What is drawn of a profile, and what is said when there can be none."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from fleettrio.bench import flames
from fleettrio.bench.context import Context
from fleettrio.bench.flamegraph import WAITS, flame_svg, part_of, parts_of, read_stacks, working
from fleettrio.clients.cli.main import run
from fleettrio.store.writer import Writer

RAW = """\
main (/home/someone/x/.venv/bin/fleettrio:1);run (fleettrio/daemon.py:5);step (trio/_core/_run.py:7) 20
run (fleettrio/daemon.py:5);handle (/home/someone/src/fleettrio/core/gateway.py:30);<lambda> (/usr/lib/python3.11/json/x.py:3) 60
run (fleettrio/daemon.py:5);commit (/opt/v/lib/python3.11/site-packages/fleettrio/store/writer.py:8) 19
run (fleettrio/daemon.py:5);seldom (fleettrio/daemon.py:9) 1
process 12:python
"""  # noqa: E501 - as it comes


def test_a_flame_graph_names_functions_and_no_place_of_the_machine() -> None:
    svg = flame_svg(read_stacks(RAW * 10), "the daemon")
    titles = [found.text or "" for found in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]  # noqa: S314
    assert "handle (fleettrio/core/gateway.py:30), 60.0%" in titles
    assert "<lambda> (json/x.py:3), 60.0%" in titles
    assert "the daemon, 100.0%" in titles
    assert not any(place in svg for place in ("/home", "/opt", "/usr", "someone", "site-packages"))


def test_what_is_hardly_ever_found_is_left_out_and_its_caller_keeps_its_width() -> None:
    stacks: dict[tuple[str, ...], int] = {("all", "often"): 999, ("all", "seldom"): 1}
    svg = flame_svg(stacks, "it")
    assert "seldom" not in svg
    assert "all, 100.0%" in svg


def test_each_sample_is_of_the_innermost_part_that_is_known() -> None:
    assert parts_of(read_stacks(RAW)) == {"core": 0.6, "trio": 0.2, "store": 0.19, "daemon": 0.01}
    assert part_of("run (fleettrio/daemon.py:5)") == "daemon"
    assert part_of("loads (json/__init__.py:5)") == ""


def test_threads_that_wait_for_work_are_no_part_of_it() -> None:
    waiting = [("run (a.py:1)", f"{name} (b.py:2)") for name in WAITS]
    assert working(dict.fromkeys([*waiting, ("run (a.py:1)",)], 5)) == {("run (a.py:1)",): 5}
    assert hasattr(Writer, WAITS[0].partition(".")[2]), "it has another name now"


def test_a_picture_of_nothing_is_none() -> None:
    with pytest.raises(ValueError, match="no samples"):
        flame_svg(read_stacks("process 1:python\n"), "it")


def test_without_py_spy_the_command_that_installs_it_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["bench", "hop", "--profile", str(tmp_path / "flames")]) == 3
    assert "python -m pip install 'py-spy>=0.4'" in capsys.readouterr().err
    assert not (tmp_path / "flames").exists()


def test_py_spy_that_may_not_look_says_so_and_how_to_allow_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = tmp_path / "py-spy"
    refusing.write_text("#!/bin/sh\necho 'Permission denied' >&2\nexit 1\n", "utf-8")
    refusing.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(flames.ProfileImpossible, match="Permission denied") as found, flames.spied(1, tmp_path / "raw"):
        pytest.fail("it must not begin")
    assert "ptrace_scope" in (found.value.hint or "")


def test_a_process_is_looked_into_where_py_spy_is_there(tmp_path: pathlib.Path) -> None:
    if shutil.which("py-spy", path=str(pathlib.Path(sys.executable).parent)) is None:
        with pytest.raises(flames.ProfileImpossible), Context() as context:
            next(flames.flames(context, tmp_path))
        return
    program = "def busy():\n    while True: pass\nprint('READY', flush=True)\nbusy()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            with flames.spied(process.pid, tmp_path / "raw"):
                subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)
        finally:
            process.kill()
    assert any("busy" in frame for stack in read_stacks((tmp_path / "raw").read_text("utf-8")) for frame in stack)


@pytest.mark.parametrize("kind", ["micro", "all"])
def test_only_the_hop_is_profiled(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", kind, "--profile", "here"]) == 2
    assert f"for hop, not for {kind}" in " ".join(capsys.readouterr().err.split())
