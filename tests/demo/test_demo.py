"""The demo itself: it tells the truth in its last line, inherits nothing, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fleettrio
from fleettrio.demo.main import LONGEST_PLACE, new_folder
from fleettrio.demo.stories import STORIES
from fleettrio.testing.waiting import wait_until

SOURCE = str(Path(fleettrio.__file__).resolve().parent.parent)
BOUND_S = 900.0


@pytest.fixture
def place() -> Iterator[Path]:
    """Where the demo makes its folder: a short path, since sockets lie below it."""
    folder = Path(tempfile.mkdtemp(prefix="ft-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def env(place: Path) -> dict[str, str]:
    """A caller whose own fleettrio must not be touched, and whose settings no daemon would start with."""
    home = place / "home-of-the-caller"
    caller = {**os.environ, "PYTHONPATH": SOURCE, "FLEETTRIO_HOME": str(home), "FLEETTRIO_TIMERS_BEAT_S": "never"}
    return {**caller, "TMPDIR": str(place), "CLAUDECODE": "1", "FLEETTRIO_TOKEN": "nobody's"}


@contextmanager
def demo(env: dict[str, str], *options: str) -> Iterator[subprocess.Popen[str]]:
    """A running demo; ended, with all that it started, when the body leaves early."""
    command = [sys.executable, "-P", "-m", "fleettrio", "demo", *options]
    running = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield running
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
        running.communicate(timeout=300)


def left_behind(folder: Path) -> list[str]:
    """What still runs of the demo that lived below `folder`, by its command line or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if process.name != str(os.getpid()) and str(folder / "ft-demo-").encode() in told:
            found.append(f"{process.name} {told[:80]!r}")
    return found


def assert_ended(folder: Path) -> None:
    """What was told to end has a moment for it."""
    wait_until("what it started has ended", lambda: not left_behind(folder))


def test_every_story_passes_and_nothing_is_left_behind(env: dict[str, str], place: Path) -> None:
    with demo(env) as running:
        output, _ = running.communicate(timeout=BOUND_S)
    lines = output.splitlines()
    assert lines[-1] == f"demo: {len(STORIES)} of {len(STORIES)} stories passed", output
    assert running.returncode == 0
    assert "\x1b" not in output, "in a pipe it is plain"
    assert_ended(place)
    assert list(place.iterdir()) == [], "neither the demo's folder nor a home of the caller"


def test_with_beta_switched_off_fewer_stories_pass_and_it_says_so(env: dict[str, str], place: Path) -> None:
    with demo(env, "--without-beta", "--keep") as running:
        output, _ = running.communicate(timeout=BOUND_S)
    verdict = re.fullmatch(r"demo: (\d+) of (\d+) stories passed", output.splitlines()[-1])
    assert verdict, output
    assert int(verdict[1]) < int(verdict[2]) == len(STORIES)
    assert running.returncode == 1
    assert "no host 'beta'" in output or "does not know worker@beta" in output, "each story says what went wrong"
    assert_ended(place)
    (kept,) = place.iterdir()
    passwords = list(kept.glob("*/broker.password"))
    assert {file.parent.name for file in passwords} == {"alpha", "beta"}
    assert {file.stat().st_mode & 0o777 for file in passwords} == {0o600}
    assert len({file.read_text() for file in passwords}) == 2, "each host has a login of its own"
    assert len({(kept / host / "state/keys/host.json").read_text() for host in ("alpha", "beta")}) == 2


def test_stopped_in_the_middle_it_ends_what_it_started(env: dict[str, str], place: Path) -> None:
    with demo(env) as running:
        assert running.stdout
        for line in running.stdout:
            if line.startswith("2/"):
                break
        assert left_behind(place), "something runs to be ended"
        running.send_signal(signal.SIGINT)
        output, _ = running.communicate(timeout=300)
    assert running.returncode == 130, output
    assert_ended(place)
    assert list(place.iterdir()) == []


def test_an_unknown_option_is_named(env: dict[str, str]) -> None:
    with demo(env, "--without-gamma") as running:
        output, _ = running.communicate(timeout=300)
    assert running.returncode == 2
    assert "--without-gamma" in output


def test_where_sockets_would_have_too_long_paths_it_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * LONGEST_PLACE)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = new_folder()
    assert deep not in folder.parents
    folder.rmdir()
