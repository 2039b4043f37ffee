"""Every error of fleettrio, split by whose doing it was.

FleetTrioError
├── ConfigError            ours, before start; lists every problem
├── WireError              the peer's; carries `.reason`, becomes a refusal, never leaves the task that met it
│   ├── MalformedEnvelope
│   └── UnsupportedVersion
├── SendError              what a local caller gets; one class per way a send can end
│   ├── BrokerUnavailable  nothing was sent
│   ├── Unroutable         the broker returned it: nobody has that inbox
│   ├── Nacked             the broker refused it (a full inbox)
│   ├── OutcomeUnknown     written, never confirmed: it may or may not arrive
│   ├── NotDelivered       the recipient's host or the dead letters said so
│   ├── Expired            it was not, and will not be, delivered
│   └── HostSilent         a live-only send to a host that is not heard
├── StoreError             the disk's: full, newer schema, corrupt, locked by a second daemon
├── SessionLost            ends one broker session; only the supervisor catches it
│   ├── LoginRefused       the broker does not take our login: a person must act
│   └── PortRefused        nobody listens there: soon tried again
└── ProtocolMisuse         our own bug: an event that the state does not allow
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = (
    "BrokerUnavailable",
    "ConfigError",
    "Expired",
    "FleetTrioError",
    "HostSilent",
    "LoginRefused",
    "MalformedEnvelope",
    "Nacked",
    "NotDelivered",
    "OutcomeUnknown",
    "PortRefused",
    "ProtocolMisuse",
    "SendError",
    "SessionLost",
    "StoreError",
    "Unroutable",
    "UnsupportedVersion",
    "WireError",
)


class FleetTrioError(Exception):
    """Base of everything fleettrio raises on purpose.

    `hint` says what to do next, in one sentence; it is empty where the message says it all.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(FleetTrioError):
    """The configuration, a key or a fleet file cannot be used. `problems` has one line for each fault."""

    def __init__(self, problems: Sequence[str], *, hint: str = "") -> None:
        super().__init__("\n".join(problems), hint=hint)
        self.problems = tuple(problems)


class WireError(FleetTrioError):
    """A peer's bytes are not what they must be. `reason` is the word of `10-wire` for it."""

    reason = "malformed"


class MalformedEnvelope(WireError):
    """Not canonical, not complete, of a wrong type or out of bounds."""


class UnsupportedVersion(WireError):
    """A newer major version of the wire format."""

    reason = "version"


class SendError(FleetTrioError):
    """A send did not end well. `exit_code` is the CLI's (`40-surfaces`), `reason` the word in the outcome."""

    exit_code = 3
    reason = "failed"


class BrokerUnavailable(SendError):
    exit_code = 8
    reason = "broker-unreachable"


class Unroutable(SendError):
    reason = "unroutable"


class Nacked(SendError):
    reason = "nacked"


class OutcomeUnknown(SendError):
    exit_code = 5
    reason = "unknown"


class NotDelivered(SendError):
    reason = "failed"


class Expired(SendError):
    exit_code = 4
    reason = "expired"


class HostSilent(SendError):
    exit_code = 8
    reason = "host-silent"


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
