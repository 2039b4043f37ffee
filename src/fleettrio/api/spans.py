"""Spans of time that a caller gave in seconds: in milliseconds, or why not, what is taken, and an example."""

from __future__ import annotations

from fleettrio.api.rpc import CallError
from fleettrio.errors import USAGE
from fleettrio.wire.kinds import Kind, longest_lifetime_ms, span_text

__all__ = ("later_ms", "lifetime_ms")

_LIVES = {
    Kind.SEND: ("a message with when={when}", "--expires 10m"),
    Kind.BROADCAST: ("a broadcast", "--expires 10m"),
    Kind.COORD: ("coordination", "--expires 10m"),
    Kind.ASK: ("a question", "--timeout 2m"),
}
_MOST_LATER_MS = 365 * 86_400_000
_SAID_IN_UNITS = (1000, 10**12)


def lifetime_ms(seconds: float, kind: Kind, when: str = "idle") -> int:
    """How long a message of this kind shall live. Raises CallError."""
    what, example = _LIVES[kind]
    return _checked(seconds, what.format(when=when), longest_lifetime_ms(kind, when), example)


def later_ms(seconds: float, option: str) -> int:
    """For what is to happen so long from now; 0 is for what is not. Raises CallError."""
    return _checked(seconds, option, _MOST_LATER_MS, f"{option} 30m") if seconds else 0


def _checked(seconds: float, what: str, most_ms: int, example: str) -> int:
    ms = seconds * 1000
    if 1 <= ms <= most_ms:
        return int(ms)
    least_said, most_said = _SAID_IN_UNITS
    said = span_text(int(ms)) if least_said <= ms < most_said else f"{seconds:g} s"
    wrong = "too short" if ms < 1 else "too long" if ms > most_ms else "no time"  # the last: not a number
    text = f"{said} is {wrong} for {what}: from 1 ms to {span_text(most_ms)} is taken"
    raise CallError(USAGE, "lifetime", text, f"for example {example}")
