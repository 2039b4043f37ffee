"""Bodies on their way in and out of a command: exact bytes on both sides, cleaned text only for a person's terminal."""

from __future__ import annotations

import re
import sys
from typing import Any, BinaryIO

import click

from fleettrio.local.sanitise import clean

__all__ = ("BODY_LIMIT", "DURATION", "emit", "flush", "read_body")

BODY_LIMIT = 1024 * 1024
"""Bytes; the daemon's own limit (`[limits] body_bytes`) may be lower."""


class _Duration(click.ParamType[float]):
    """Seconds, written as `50`, `30s`, `30m`, `2h`, `1d`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no duration: write 50, 30s, 30m, 2h or 1d", param, ctx)
        return float(found["number"]) * _UNITS[found["unit"]]


_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(?P<number>\d{1,9}(\.\d{1,3})?)(?P<unit>s|m|min|h|d|)")
DURATION = _Duration()


def read_body(argument: str | None, file: str | None) -> bytes:
    """The body from the file, from the argument, or from standard input (`-`, or neither given).

    Raises click.UsageError when there are two, when standard input is a terminal nobody asked to type into, or when the
    body is over 1 MiB.
    """
    if file is not None and argument is not None:
        raise click.UsageError("a body and --file were both given: one is enough")
    if file is not None and file != "-":
        with open(file, "rb") as stream:
            return _bounded(stream)
    if argument is not None and argument != "-":
        return _checked(argument.encode("utf-8", "surrogateescape"))
    if argument is None and file is None and sys.stdin.isatty():
        raise click.UsageError("no body: give it as the last argument, with --file, or on standard input")
    return _bounded(sys.stdin.buffer)


def _bounded(stream: BinaryIO) -> bytes:
    return _checked(stream.read(BODY_LIMIT + 1))


def _checked(body: bytes) -> bytes:
    if len(body) > BODY_LIMIT:
        raise click.UsageError("the body is over 1 MiB: send the path of a file instead")
    return body


def emit(body: bytes) -> None:
    """A body on standard output, flushed: its exact bytes to a pipe or file, the cleaned text to a terminal."""
    if sys.stdout.isatty():
        print(clean(body))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(body)
    flush()


def flush() -> None:
    """What was printed has left this process when this returns; an error here means that it has not."""
    sys.stdout.flush()
    sys.stdout.buffer.flush()
