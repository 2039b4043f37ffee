"""`scripts/test.sh`: few tests that fail get one more try, alone; nothing else makes a red run green."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

UNSTEADY = """
from pathlib import Path
def test_unsteady():
    seen = Path(__file__).with_suffix(".seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
BROKEN = "def test_broken(): assert 0\n"
GOOD = "def test_good(): pass\n"
SKIPPED = "import pytest\n@pytest.mark.skip\ndef test_skipped(): pass\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/test.sh", tmp_path / "scripts")
    (tmp_path / "tests/plugins").mkdir(parents=True)
    shutil.copy(ROOT / "tests/plugins/layers.py", tmp_path / "tests/plugins")
    return tmp_path


def run(tree: Path, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (tree / "tests/layer").mkdir(exist_ok=True)
        (tree / f"tests/layer/test_{name}.py").write_text(text)
    command: list[str | Path] = ["bash", tree / "scripts/test.sh", sys.executable, "-p", "no:cacheprovider", "tests"]
    own = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=tree, env=own, capture_output=True, text=True, timeout=120)


def test_one_that_passes_alone_ends_green_and_is_named(tree: Path) -> None:
    done = run(tree, unsteady=UNSTEADY, good=GOOD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("unsteady: tests/layer/test_unsteady.py::test_unsteady\n")


def test_one_that_fails_again_is_red(tree: Path) -> None:
    done = run(tree, unsteady=UNSTEADY, broken=BROKEN)
    assert (done.returncode, "unsteady: " in done.stdout) == (1, False), done.stdout


def test_all_good_is_run_once(tree: Path) -> None:
    done = run(tree, good=GOOD)
    assert (done.returncode, done.stdout.count("1 passed")) == (0, 1), done.stdout


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"skipped": SKIPPED, "unsteady": UNSTEADY}, id="a-test-was-skipped"),
        pytest.param({f"unsteady_{n}": UNSTEADY for n in range(9)}, id="more-than-a-few"),
        pytest.param({"syntax": "def", "unsteady": UNSTEADY}, id="a-file-was-not-read"),
    ],
)
def test_what_is_more_than_a_few_unsteady_tests_gets_no_second_try(tree: Path, files: dict[str, str]) -> None:
    done = run(tree, **files)
    assert done.returncode in (1, 2)
    assert "once more" not in done.stdout
