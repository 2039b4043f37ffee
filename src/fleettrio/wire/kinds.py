"""The kinds of messages and how long each lives."""

from __future__ import annotations

import enum
from collections.abc import Mapping

__all__ = (
    "CONTROL_KINDS",
    "MESSAGE_KINDS",
    "NOTICE_KINDS",
    "Kind",
    "default_lifetime_ms",
    "longest_lifetime_ms",
    "span_text",
)


class Kind(enum.StrEnum):
    # Messages: to an agent, or to a lead.
    SEND = "SEND"
    REPLY = "REPLY"
    ASK = "ASK"
    ANSWER = "ANSWER"
    BROADCAST = "BROADCAST"
    COORD = "COORD"
    # Control: to a host.
    SPAWN = "SPAWN"
    STOP = "STOP"
    RECALL = "RECALL"
    QUERY = "QUERY"
    TRACE = "TRACE"
    TRACED = "TRACED"
    ROSTER_ASK = "ROSTER_ASK"
    ROSTER = "ROSTER"
    PING = "PING"
    PONG = "PONG"
    RPC = "RPC"
    PAUSE = "PAUSE"
    # Notices: to the host of an earlier message, about it.
    INJECTED = "INJECTED"
    FAILED = "FAILED"
    NO_WAITER = "NO_WAITER"
    TOO_LATE = "TOO_LATE"
    ABANDONED = "ABANDONED"
    OUTCOME = "OUTCOME"
    # To every host.
    PRESENCE = "PRESENCE"


MESSAGE_KINDS = frozenset({Kind.SEND, Kind.REPLY, Kind.ASK, Kind.ANSWER, Kind.BROADCAST, Kind.COORD})
NOTICE_KINDS = frozenset({Kind.INJECTED, Kind.FAILED, Kind.NO_WAITER, Kind.TOO_LATE, Kind.ABANDONED, Kind.OUTCOME})
CONTROL_KINDS = frozenset(Kind) - MESSAGE_KINDS - NOTICE_KINDS - {Kind.PRESENCE}

_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_LONG = 14 * _DAY

_LIFETIMES: Mapping[str, tuple[int, int]] = {
    Kind.PRESENCE: (15 * _SECOND, 60 * _SECOND),
    **dict.fromkeys(
        (Kind.PING, Kind.PONG, Kind.QUERY, Kind.TRACE, Kind.TRACED, Kind.ROSTER_ASK, Kind.ROSTER, Kind.RPC),
        (30 * _SECOND, 5 * _MINUTE),
    ),
    **dict.fromkeys((Kind.ASK, Kind.ANSWER, Kind.SPAWN, Kind.STOP), (10 * _MINUTE, _HOUR)),
    Kind.BROADCAST: (_HOUR, _DAY),
}
"""(default, most) in ms. Absent: 14 days for both, and SEND, which depends on more than its kind."""


def default_lifetime_ms(kind: str, when: str = "idle", takes: str = "push") -> int:
    """How long a message lives when its sender says nothing; `takes` is the recipient's."""
    if kind == Kind.SEND and when == "now":
        return 10 * _MINUTE
    if kind == Kind.SEND and takes == "push":
        return 8 * _HOUR
    return _LIFETIMES.get(kind, (_LONG, _LONG))[0]


def longest_lifetime_ms(kind: str, when: str = "idle") -> int:
    """The most that `expiresAt` may lie after `ts`; for a kind that is not known, the most of all."""
    if kind == Kind.SEND and when == "now":
        return _DAY
    return _LIFETIMES.get(kind, (_LONG, _LONG))[1]


def span_text(span_ms: int) -> str:
    """How long that is, in the largest unit that leaves nothing over: `14 d`, `90 s`."""
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"))
    size, unit = next((u for u in units if span_ms >= u[0] and span_ms % u[0] == 0), (_SECOND, "s"))
    return f"{span_ms // size} {unit}"
