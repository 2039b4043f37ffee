"""Programs that a benchmark runs beside itself: fed with JSON, ended whatever happens, heard to their end."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from fleettrio.errors import FleetTrioError

__all__ = ("CountsDiffer", "Program", "last_line", "program", "wait_ready")

Program = subprocess.Popen[bytes]
_LIMIT_S = 300.0


class CountsDiffer(FleetTrioError):
    """What was sent is not what arrived, or not once each, or a program broke down: no figure stands on it."""


@contextlib.contextmanager
def program(
    command: Sequence[str], given: bytes, env: Mapping[str, str], cwd: pathlib.Path | None = None
) -> Iterator[Program]:
    """A program that runs in the body, with `given` on its standard input; behind it, it has ended."""
    process = subprocess.Popen(
        command,
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(given)
            process.stdin.close()
        process.stdin = None
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_ready(process: Program) -> None:
    """Wait until it printed READY. Raises `CountsDiffer` with its last words when it ended instead."""
    assert process.stdout is not None
    if process.stdout.readline() != b"READY\n":
        raise CountsDiffer(f"a program did not start: {_last_words(process)}")


def last_line(process: Program) -> bytes:
    """What it printed last, once it has ended well. Raises `CountsDiffer`."""
    try:
        out, err = process.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise CountsDiffer(f"a program did not end within {_LIMIT_S:g} s") from None
    if process.returncode != 0 or not out.strip():
        words = err.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise CountsDiffer(f"a program ended with {process.returncode}: {' '.join(words)}")
    return out.splitlines()[-1]


def _last_words(process: Program) -> str:
    process.kill()
    _, err = process.communicate()
    return " ".join(err.decode("utf-8", "replace").strip().splitlines()[-1:])
