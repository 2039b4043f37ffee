"""What an operator sees of a running daemon: the log and the counters; and the fail points that tests kill it at.

Rules of the log: `trace_id` and `msg_id` on every line inside `about(...)`; never a body, never a URL, never a secret.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from fleettrio.config import LogSection

__all__ = ("COUNTERS", "FAILS", "Counters", "FailPoint", "about", "failpoint", "get_logger", "set_up_log")

FAILPOINT_VARIABLE = "FLEETTRIO_FAILPOINT"
FAILPOINT_EXIT = 137
"""What a shell reports for a process that was killed with SIGKILL, which a fail point stands for."""

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_FORBIDDEN = frozenset({"body", "url", "uri", "uris", "password", "token", "seed"})


def escaped(text: str) -> str:
    """`text` with everything that is not plainly printable spelled out: `\\x1b`."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def set_up_log(section: LogSection, stream: TextIO | None = None, *, clean: Callable[[str], str] = escaped) -> TextIO:
    """Send the log of this process to `section.file`, else to `stream` (standard error when None); returns where to.

    Every text that is logged passes `clean` on its way: it may be a peer's.
    """
    if section.file:
        target: TextIO = open(section.file, "a", encoding="utf-8", buffering=1)  # noqa: SIM115  lives as long as the process
    else:
        target = sys.stderr if stream is None else stream
    as_console = section.format == "console" or (section.format == "auto" and target.isatty())
    # Plain tracebacks: others show the values of variables, and those may be bodies.
    as_lines = structlog.dev.ConsoleRenderer(
        colors=target.isatty(), exception_formatter=structlog.dev.plain_traceback, sort_keys=False
    )
    renderer: Processor = as_lines if as_console else structlog.processors.JSONRenderer()
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _drop_secrets,
        structlog.processors.format_exc_info,
        _cleaner(clean),
    ]
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[section.level]),
        logger_factory=structlog.WriteLoggerFactory(target),
        cache_logger_on_first_use=False,
    )
    return target


def get_logger(part: str) -> FilteringBoundLogger:
    """The logger of one part of the daemon; `part` stands on each of its lines."""
    logger: FilteringBoundLogger = structlog.get_logger(part=part)
    return logger


@contextlib.contextmanager
def about(*, trace_id: str = "", msg_id: str = "") -> Iterator[None]:
    """Every line logged inside, also by the functions called there, carries these ids."""
    bound = {key: value for key, value in (("trace_id", trace_id), ("msg_id", msg_id)) if value}
    with structlog.contextvars.bound_contextvars(**bound):
        yield


def _cleaner(clean: Callable[[str], str]) -> Processor:
    """What is logged, cleaned; a traceback line by line."""

    def cleaned(value: object) -> object:
        return clean(value) if isinstance(value, str) else value

    def process(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        lines = str(event.get("exception", "")).split("\n")
        words = {key: cleaned(value) for key, value in event.items()}
        if "exception" in event:
            words["exception"] = "\n".join(map(clean, lines))
        return words

    return process


def _drop_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The last line of defence for the rule above: such a key never reaches the log, whoever passed it."""
    for key in _FORBIDDEN & event.keys():
        event[key] = "(not logged)"
    return event


class Counters:
    """Numbers that only grow, by name and one label: `count("refused", "signature")`."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, name: str, label: str = "", by: int = 1) -> None:
        self._counts[name, label] += by

    def value(self, name: str, label: str = "") -> int:
        return self._counts.get((name, label), 0)

    def labels(self, name: str) -> dict[str, int]:
        """Every label of `name` with its count."""
        return {label: count for (known, label), count in sorted(self._counts.items()) if known == name}


COUNTERS = Counters()
"""The daemon's own."""


class FailPoint:
    """Kills the process at a named step, as a crash would: `FLEETTRIO_FAILPOINT=name`, `name:3` for the third pass,
    `name@9f31c2d4` for the pass of the message whose id ends so.

    `os._exit` runs no handler and flushes nothing, so what the disk and the peers see is what SIGKILL leaves. The one
    line it writes first is how a test knows that the process died in the window it named.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        name, _, number = env.get(FAILPOINT_VARIABLE, "").partition(":")
        self.name, _, self._about = name.partition("@")
        self._passes_left = int(number) if number.isdecimal() else 1

    def passed(self, name: str, about: str) -> None:
        if name != self.name or not about.endswith(self._about):
            return
        self._passes_left -= 1
        if self._passes_left <= 0:
            os.write(2, f"failpoint {name}: the process ends here\n".encode())
            os._exit(FAILPOINT_EXIT)


_FAILPOINT = FailPoint(os.environ)


FAILS = bool(_FAILPOINT.name)
"""True in a daemon that a test makes die; otherwise nobody need look for the places."""


def failpoint(name: str, *, about: str = "") -> None:
    """A place where a test can make the daemon die; costs one comparison in normal life. `about`: a message's id."""
    _FAILPOINT.passed(name, about)
