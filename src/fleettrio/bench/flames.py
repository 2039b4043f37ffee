"""Where both daemons spend their time while messages go from one to the other: flame graphs, and shares by part.

py-spy looks into the daemons from outside, two hundred times a second. That slows them down, so nothing that is found
here is a figure of throughput.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from fleettrio.bench.context import Context
from fleettrio.bench.flamegraph import flame_svg, parts_of, read_stacks, working
from fleettrio.bench.pair import Pair
from fleettrio.bench.results import Row, row
from fleettrio.bench.samples import Samples
from fleettrio.bench.traffic import Way
from fleettrio.errors import FleetTrioError

__all__ = ("ProfileImpossible", "flames", "spied")

_RATE = 200
_SECONDS = 12.0
_WARM, _MOST = 1_000, 40_000
_LIMIT_S = 60.0
_WAY = Way(4, 60)
_SMALLEST = 0.01


class ProfileImpossible(FleetTrioError):
    """py-spy is not there, or may not look into a daemon, or there is no place for what it found."""


def flames(context: Context, folder: pathlib.Path) -> Iterator[Row]:
    """Draw `sending.svg` and `receiving.svg` into `folder`, which is made. Raises `ProfileImpossible`."""
    _py_spy()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ProfileImpossible(f"{folder} cannot be made: {problem.strerror}", hint="name another folder") from None
    with Pair(context) as pair:
        count = min(_MOST, int(pair.hop(_WARM, way=_WAY).rate * _SECONDS))
        about: dict[str, Any] = {"implementation": pair.implementation, "lane": pair.lane, "fsync": "FULL"}
        ends = {"sending": pair.alpha, "receiving": pair.beta}
        found = {end: context.folder / f"{end}.raw" for end in ends}
        with contextlib.ExitStack() as stack:
            for end, host in ends.items():
                stack.enter_context(spied(host.pid, found[end]))
            context.progress.step(f"{count} messages, both daemons looked into")
            pair.hop(count, way=_WAY)
    for end, file in found.items():
        yield from _drawn(end, file, folder, about)


def _drawn(end: str, file: pathlib.Path, folder: pathlib.Path, about: dict[str, Any]) -> Iterator[Row]:
    stacks = working(read_stacks(file.read_text("utf-8", "replace")))
    if not stacks:
        raise ProfileImpossible(f"py-spy found nothing in the {end} daemon", hint="run it once more")
    picture = folder / f"{end}.svg"
    try:
        picture.write_text(flame_svg(stacks, f"the {end} daemon"), "utf-8")
    except OSError as problem:
        raise ProfileImpossible(f"{picture}: {problem.strerror}", hint="name another folder") from None
    title = f"share of the {end} daemon's time, by part"
    for part, share in parts_of(stacks).items():
        if share >= _SMALLEST:
            yield row(f"profile.{end}.{part}", title, "%", Samples((100 * share,)), **about)


@contextlib.contextmanager
def spied(pid: int, file: pathlib.Path) -> Iterator[None]:
    """A process is looked into during the body; behind it, its stacks are in `file`. Raises `ProfileImpossible`."""
    command = [_py_spy(), "record", "--pid", str(pid), "--format", "raw", "--function", "--rate", str(_RATE)]
    process = subprocess.Popen(
        [*command, "--output", str(file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        _wait_sampling(process)
        yield
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_LIMIT_S)
        if not file.exists():
            raise ProfileImpossible("py-spy wrote nothing down", hint="run it once more")
    finally:
        process.kill()
        process.communicate()


def _wait_sampling(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    words = []
    for line in process.stdout:
        words.append(line.strip().removeprefix("py-spy> "))
        if "Sampling process" in line:
            return
    raise ProfileImpossible(
        f"py-spy cannot look into the daemon: {' '.join(filter(None, words))}",
        hint="run it as root, or allow it: sysctl kernel.yama.ptrace_scope=0",
    )


def _py_spy() -> str:
    """Beside the Python that runs this, or on PATH."""
    beside = pathlib.Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise ProfileImpossible(
            "py-spy, which looks into the daemons, is not installed", hint="python -m pip install 'py-spy>=0.4'"
        )
    return found
