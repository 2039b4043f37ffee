"""The host and its fleet: who is there, what is wrong, what to do."""

from __future__ import annotations

import msgspec

from fleettrio.api.schema.agents import AgentView
from fleettrio.api.schema.base import Done, Empty, Line, Methods

__all__ = (
    "CLOCK_WARN_MS",
    "KEPT_OFF",
    "Check",
    "DoctorReport",
    "Fleet",
    "ForgetHost",
    "HostView",
    "LeadView",
    "Ping",
    "Pong",
    "Reloaded",
    "Status",
)


KEPT_OFF = "kept-off"
CLOCK_WARN_MS = 5_000
"""A clock further off than this is a problem that a person mends."""


class HostView(msgspec.Struct, kw_only=True):
    host: str
    is_self: bool
    status: str
    """`up`, `unknown` (not heard for 3 beats), `left` (its daemon was ended), `never-heard`, `revoked`."""
    heard_at: int
    offset_ms: int
    """Its clock minus ours."""
    version: str
    trusted: bool
    refuses_us: str
    we_refuse: str
    agents: int
    profiles: list[str] = []
    paused: str = ""
    """Who paused what lands here; empty when nobody did. Known of this host alone."""


class LeadView(msgspec.Struct, kw_only=True):
    """Who the lead here is among the leads of other fleets."""

    coord_id: str
    lead: str
    """The name of the agent here."""
    broker: str
    """Its link to the coordinator's broker, in the words of `Status.broker`."""
    detail: str
    mailbox: str
    """`open`, or why nothing is fetched from it."""
    others: list[str]
    """The coordIds of the other leads."""


class Fleet(msgspec.Struct):
    host: str
    fleet_id: str
    hosts: list[HostView]
    agents: list[AgentView]
    coordination: LeadView | None = None
    """None without a coordinator."""


class Status(msgspec.Struct, kw_only=True):
    host: str
    fleet_id: str
    version: str
    pid: int
    started_at: int
    home: str
    implementation: str
    """`compiled` or `pure`."""
    broker: str
    """`standalone`, `connected`, `connecting`, `suspect`, `blocked`, `refused-login`, `kept-off` (not tried)."""
    broker_detail: str
    broker_since: int
    lane: str = ""
    """Which way messages take to the broker: `fast`, or `stock`, the slower one of the library; empty without one."""
    waiting: int
    outstanding: int
    refused: dict[str, int]
    """Refused deliveries by reason, since the start."""
    problems: list[str]
    next_step: str
    fleet: Fleet
    out_of_date: str = ""
    """What the daemon cannot take up while it runs; empty when there is nothing."""


class ForgetHost(msgspec.Struct, forbid_unknown_fields=True):
    """Take away what is known of a host and its agents."""

    host: Line


class Ping(msgspec.Struct, forbid_unknown_fields=True):
    target: Line
    """A host, or an agent (`name@host`)."""


class Pong(msgspec.Struct):
    host: str
    rtt_ms: float
    version: str
    offset_ms: int
    trusts_us: bool
    agent: str = ""
    agent_status: str = ""


class Check(msgspec.Struct):
    name: str
    ok: bool
    detail: str
    fix: str = ""
    """The command or step that mends it."""


class DoctorReport(msgspec.Struct):
    checks: list[Check]


class Reloaded(msgspec.Struct):
    fleet_id: str
    rev: int
    hosts: list[str]
    out_of_date: str = ""
    """As in `Status`."""


METHODS: Methods = {
    "status": (Empty, Status),
    "list": (Empty, Fleet),
    "ping": (Ping, Pong),
    "doctor": (Empty, DoctorReport),
    "reload": (Empty, Reloaded),
    "accept_clock": (Empty, Done),
    "leave_safe": (Empty, Done),
    "copy_ended": (Empty, Done),
    "forget_host": (ForgetHost, Done),
    "down": (Empty, Done),
}
