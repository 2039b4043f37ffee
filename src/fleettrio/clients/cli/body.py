"""Bodies on their way in and out of a command: exact bytes on both sides, cleaned text only for a person's terminal."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Iterable
from typing import Any, BinaryIO

import click
import msgspec

from fleettrio.api.schema import InboxMessage
from fleettrio.local.sanitise import BODY_MARK, clean, unmarked

__all__ = (
    "BODY_LIMIT",
    "DURATION",
    "MOMENT",
    "emit",
    "flush",
    "is_duration",
    "marked",
    "not_blank",
    "read_body",
    "readable",
)

BODY_LIMIT = 1024 * 1024
"""Bytes; the daemon's own limit (`[limits] body_bytes`) may be lower."""


class _Duration(click.ParamType[float]):
    """Seconds, written as `50`, `30s`, `30m`, `2h`, `1d`."""

    name = "duration"
    written = "50, 30s, 30m, 2h or 1d"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a {self.name}: write {self.written}", param, ctx)
        return float(found["number"]) * _UNITS[found["unit"]]


def is_duration(word: str) -> bool:
    """Whether this is a number with its unit, as `30s`: few texts are."""
    found = _DURATION.fullmatch(word)
    return found is not None and bool(found["unit"])


def not_blank(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str:
    """For an option or argument that may be left out (then it is empty), but not given without saying anything."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty: say something, or leave it out")
    return value or ""


_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(?P<number>\d{1,9}(\.\d{1,3})?)(?P<unit>s|m|min|h|d|)")
DURATION = _Duration()


class _Moment(_Duration):
    """Seconds from now: a duration, or a time of day (the next one)."""

    name = "moment"
    written = "10m, 2h or 1d for a time from now, or 14:30"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = _TIME.fullmatch(str(value).strip())
        if found is None:
            return super().convert(value, param, ctx)
        now = dt.datetime.now().astimezone()
        hour, minute = int(found["hour"]), int(found["minute"])
        if hour > 23 or minute > 59:
            self.fail(f"{value!r} is not a time of day: write 14:30", param, ctx)
        moment = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return (moment + dt.timedelta(days=moment <= now) - now).total_seconds()


_TIME = re.compile(r"(?P<hour>\d{1,2}):(?P<minute>\d{2})")
MOMENT = _Moment()


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
        print(unmarked(body))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(body)
    flush()


def marked(body: bytes | str) -> str:
    """A body for beside lines of others: cleaned, each of its lines marked."""
    return "\n".join(f"{BODY_MARK}{line}" for line in clean(body).split("\n"))


def readable(messages: Iterable[InboxMessage]) -> list[InboxMessage]:
    """The same with their text, for whoever reads JSON."""
    return [msgspec.structs.replace(message, text=clean(message.body)) for message in messages]


def flush() -> None:
    """What was printed has left this process when this returns; an error here means that it has not."""
    sys.stdout.flush()
    sys.stdout.buffer.flush()
