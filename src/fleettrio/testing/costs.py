"""What one run of a program costs, from its start to its exit."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ("EMPTY", "Cost", "beside", "cost_of")

EMPTY = (sys.executable, "-c", "pass")
"""What any program in Python costs."""


class Cost(NamedTuple):
    """Milliseconds, on the wall and of the processor."""

    wall: float
    cpu: float


def cost_of(argv: Sequence[str], env: Mapping[str, str], given: bytes = b"") -> Cost:
    """One run, with `given` on its standard input and its output thrown away. Raises AssertionError if it fails."""
    began = time.perf_counter()
    with subprocess.Popen(argv, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(given)
        process.stdin.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, argv
    return Cost((time.perf_counter() - began) * 1000, (used.ru_utime + used.ru_stime) * 1000)


def beside(
    argv: Sequence[str], env: Mapping[str, str], *, given: Sequence[bytes], than: Sequence[str] = EMPTY
) -> tuple[Cost, Cost]:
    """Medians of `than` and of `argv`, one run for each of `given`; by turns, so that both meet the same machine."""
    pairs = [(cost_of(than, env), cost_of(argv, env, one)) for one in given]
    first, second = (Cost(*map(statistics.median, zip(*kind, strict=True))) for kind in zip(*pairs, strict=True))
    return first, second
