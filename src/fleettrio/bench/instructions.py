"""How many instructions the small cases take, counted by callgrind: the same on a machine that is busy with other work.

One program makes every case and runs it N times, between two calls of `getppid`; callgrind begins a new count at each.
So what the start of a program costs, fifty times as much under callgrind, is paid once and counted nowhere.
`python -m fleettrio.bench.instructions [--pure] [CASE…]` prints them.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping

from fleettrio.bench.cases import made
from fleettrio.errors import FleetTrioError

__all__ = ("COUNTED", "CountingFailed", "count_all")

COUNTED: Mapping[str, int] = {
    "encode": 40,
    "decode": 40,
    "verify": 4,
    "seen-few": 2,
    "publish": 20,
    "read": 20,
    "envelope-out": 40,
    "envelope-in": 40,
    "send": 8,
    "receive": 4,
}
"""Case → N of the compiled twin; the pure one, which takes ten times as many, does an eighth of it."""
_LIMIT_S = 600.0
_MARK = "getppid"


class CountingFailed(FleetTrioError):
    """Valgrind is not there, or the program under it broke down."""


def count_all(cases: Iterable[str] = COUNTED, *, is_pure: bool = False) -> dict[str, float]:
    """Instructions of one item of each case. Raises `CountingFailed`."""
    if shutil.which("valgrind") is None:
        raise CountingFailed("valgrind is not on PATH", hint="install it: apt-get install valgrind")
    names = list(cases)
    with tempfile.TemporaryDirectory(prefix="ft-count-") as folder:
        out = pathlib.Path(folder) / "count"
        _run_counted(names, out, is_pure=is_pure)
        # One part for what was before the first mark, then one for each case and one for each pause behind it.
        counts = [_total(out.with_name(f"count.{2 * place}")) for place in range(1, len(names) + 1)]
    return {
        name: count / _times(name, is_pure=is_pure) / made(name).items
        for name, count in zip(names, counts, strict=True)
    }


def _run_counted(names: list[str], out: pathlib.Path, *, is_pure: bool) -> None:
    command = ["valgrind", "--tool=callgrind", f"--dump-before={_MARK}", f"--callgrind-out-file={out}"]
    command += [sys.executable, "-m", "fleettrio.bench.instructions", "--run", *(["--pure"] if is_pure else []), *names]
    # The order of hash tables, and with it their collisions, must not differ from one run to the next.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "FLEETTRIO_NO_EXTENSIONS": "1" if is_pure else ""}
    try:
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise CountingFailed(f"the cases are not done within {_LIMIT_S:g} s under valgrind") from None
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()[-1:]
        raise CountingFailed(f"the program that is counted ended with {done.returncode}: {' '.join(words)}")


def _total(part: pathlib.Path) -> int:
    found = re.search(r"^totals: (\d+)", part.read_text(), re.MULTILINE) if part.exists() else None
    if found is None:
        raise CountingFailed(f"valgrind did not count from {_MARK} to {_MARK}: {part.name} is missing or empty")
    return int(found[1])


def _times(name: str, *, is_pure: bool) -> int:
    return max(1, COUNTED[name] // 8) if is_pure else COUNTED[name]


def _run(names: list[str], *, is_pure: bool) -> None:
    """The program that is counted. A case is run before it is counted, so that what it makes once is there."""
    for name in names:
        case = made(name)
        os.getppid()
        case.run(_times(name, is_pure=is_pure))
        os.getppid()


def main(arguments: list[str]) -> None:
    names = [each for each in arguments if each in COUNTED] or list(COUNTED)
    is_pure = "--pure" in arguments
    if "--run" in arguments:
        _run(names, is_pure=is_pure)
        return
    for case, instructions in count_all(names, is_pure=is_pure).items():
        sys.stdout.write(f"{case:<14}{instructions:12,.0f}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
