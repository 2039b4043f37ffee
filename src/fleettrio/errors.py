"""Every error of fleettrio, split by whose doing it was.

FleetTrioError
├── ConfigError            ours, before start; lists every problem
├── WireError              the peer's; carries `.reason`, becomes a refusal, never leaves the task that met it
│   ├── MalformedEnvelope
│   └── UnsupportedVersion
├── BrokerUnavailable      a command cannot reach the broker, or ask it
├── StoreError             the disk's: full, newer schema, corrupt, locked by a second daemon
├── SessionLost            ends one broker session; only the supervisor catches it
│   ├── LoginRefused       the broker does not take our login: a person must act
│   └── PortRefused        nobody listens there: soon tried again
└── ProtocolMisuse         our own bug: an event that the state does not allow
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = (
    "EXPIRED",
    "FAILED",
    "NO_BROKER",
    "NO_DAEMON",
    "STOPPED",
    "UNKNOWN",
    "USAGE",
    "WAITING",
    "BrokerUnavailable",
    "ConfigError",
    "FleetTrioError",
    "LoginRefused",
    "MalformedEnvelope",
    "PortRefused",
    "ProtocolMisuse",
    "SessionLost",
    "StoreError",
    "UnsupportedVersion",
    "WireError",
    "first_of",
)

USAGE, FAILED, EXPIRED, UNKNOWN, WAITING, NO_DAEMON, NO_BROKER = 2, 3, 4, 5, 6, 7, 8
"""Exit codes of the command line, and so of every error that a person or a program gets."""
STOPPED = 130
"""…and of a command that was stopped by Ctrl-C."""


class FleetTrioError(Exception):
    """Base of everything fleettrio raises on purpose.

    `hint` says what to do next, in one sentence; it is empty where the message says it all. `exit_code` is that of a
    command which ends with it.
    """

    exit_code = FAILED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(FleetTrioError):
    """The configuration, a key or a fleet file cannot be used. `problems` has one line for each fault."""

    def __init__(self, problems: Sequence[str], *, hint: str = "") -> None:
        super().__init__("\n".join(problems), hint=hint)
        self.problems = tuple(problems)


class WireError(FleetTrioError):
    """A peer's bytes are not what they must be. `reason` is the word by which it is refused."""

    reason = "malformed"


class MalformedEnvelope(WireError):
    """Not canonical, not complete, of a wrong type or out of bounds."""


class UnsupportedVersion(WireError):
    """A newer major version of the wire format."""

    reason = "version"


class BrokerUnavailable(FleetTrioError):
    """A command that speaks to the broker itself cannot reach it, or ask it."""

    exit_code = NO_BROKER


class StoreError(FleetTrioError):
    """The store cannot be opened, read or written.

    `reason`: `disk-full`, `io`, `corrupt`, `read-only`, `locked`, `newer-schema`, `foreign`, `refused` (these rows),
    `backlog`, `closed`.
    """

    def __init__(self, message: str, *, reason: str = "io", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class SessionLost(FleetTrioError):
    """The broker connection of this session is gone or useless. `reason` is one word for health and doctor."""

    reason = "link-lost"


class LoginRefused(SessionLost):
    """The broker is there, but does not take our user, password or virtual host."""

    reason = "refused-login"


class PortRefused(SessionLost):
    """Nobody listens where the broker should be. It may be there at any moment, so trying again soon is cheap."""


class ProtocolMisuse(FleetTrioError):
    """Our own shell fed the core an event that its state does not allow. Nothing was changed."""


def first_of(error: BaseException) -> BaseException:
    """The error itself; of a group, however deep, the first one in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
