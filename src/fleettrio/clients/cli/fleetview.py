"""Bare `fleettrio` and `status`: this host, its broker, the agents, what waits, what is wrong, what to do next."""

from __future__ import annotations

from fleettrio.api.schema import CLOCK_WARN_MS, AgentView, Empty, HostView, LeadView, Status
from fleettrio.api.schema.people import Beside
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.table import at_time, print_table, say
from fleettrio.local.sanitise import one_line

__all__ = ("broker_words", "host_words", "lead_words", "print_problems", "print_top", "show_fleet", "trust_of")


def show_fleet() -> int:
    """Print the fleet as this host sees it. Exit code 0, whatever is wrong in it: `status --check` judges."""
    with connect() as client:
        beside: Beside = client.call("beside", Empty())
        status: Status = client.call("status", Empty())
    _print_beside(beside)
    print_top(status)
    fleet = status.fleet
    for host in sorted(fleet.hosts, key=lambda host: (not host.is_self, host.host)):
        print()
        _print_host(host, [agent for agent in fleet.agents if agent.host == host.host])
    print_problems(status)
    return 0


def _print_beside(beside: Beside) -> None:
    """What happened while the person was away, then what waits for whoever looks."""
    if beside.away_since:
        say(f"while you were away (since {at_time(beside.away_since)}):")
        for line in beside.meanwhile:
            say(f"  {one_line(line, 300)}", indent="    ")
        print()
    if not beside.mail:
        return
    say(f"{'1 message waits' if beside.waiting == 1 else f'{beside.waiting} messages wait'} for you:")
    for message in beside.mail:
        is_question = message.kind == "ASK"
        what = f"asks: {message.preview}" if is_question else f"({message.kind.lower()}) {message.preview}"
        say(f"  {message.short}  {one_line(f'{message.sender} {what}', 200)}", indent=" " * 12)
        if is_question:
            say(f"            fleettrio answer {message.short} 'TEXT'", indent=" " * 12)
    say("  read them: fleettrio inbox --take", indent="    ")
    print()


def print_top(status: Status) -> None:
    """Two lines: who we are, and how the link and the mail stand."""
    fleet = "no fleet" if status.fleet_id.startswith("solo-") else f"fleet {status.fleet_id}"
    say(f"{status.host} · {fleet} · broker: {broker_words(status)}", indent="  ")
    if status.fleet.coordination:
        say(lead_words(status.fleet.coordination), indent="  ")
    say(f"{status.waiting} waiting here · {status.outstanding} sent without an outcome", indent="  ")


def lead_words(lead: LeadView) -> str:
    """Who the lead here is to other leads."""
    broker = lead.broker + (f" ({one_line(lead.detail, 120)})" if lead.detail else "")
    return f"{lead.lead} is the lead {lead.coord_id} to other leads · coordinator's broker: {broker}"


def broker_words(status: Status) -> str:
    """The link to the broker in a few words."""
    if status.broker == "standalone":
        return "none (standalone)"
    detail = f": {one_line(status.broker_detail, 120)}" if status.broker_detail else ""
    return f"{status.broker} since {at_time(status.broker_since)}{detail}"


def _print_host(host: HostView, agents: list[AgentView]) -> None:
    parts = [host.host + (" (here)" if host.is_self else ""), host_words(host)]
    if abs(host.offset_ms) > CLOCK_WARN_MS:
        parts.append(f"its clock is {host.offset_ms / 1000:+.0f} s")
    trust = trust_of(host)
    if trust not in ("-", "both ways", "not heard", "revoked"):  # the last two the status says already
        parts.append(trust)
    say(one_line(" · ".join(parts), 200), indent="  ")
    if not agents:
        say("  no agents")
        return
    print_table(
        ("AGENT", "STATE", "SINCE", "RUNS", "TAKES", "UNREAD"),
        (
            (
                agent.name,
                agent.status + (", paused" if agent.paused else ""),
                at_time(agent.since),
                agent.harness or "-",
                agent.takes + (" (full)" if agent.full else "") + ("" if agent.wakes else ", not woken"),
                str(agent.waiting) if agent.waiting else "-",
            )
            for agent in agents
        ),
        indent="  ",
        whole=("AGENT", "SINCE"),
    )


def host_words(host: HostView) -> str:
    """How it is, and since when, if it is not there: `up`, `unknown since 14:02`, `left 14:02`."""
    match host.status:
        case "unknown":
            return f"unknown since {at_time(host.heard_at)}"
        case "left":
            return f"left {at_time(host.heard_at)}"
        case "revoked" if host.heard_at and not host.is_self:
            return f"revoked, last heard {at_time(host.heard_at)}"
        case _:
            return host.status


def trust_of(host: HostView) -> str:
    """Who refuses whom, in a few words. `both ways` only where that host was heard: before, nobody knows."""
    if host.status == "revoked":
        return "revoked"
    if host.is_self:
        return "-" if host.trusted else "not in our own fleet file"
    problems = [] if host.trusted else ["not in our fleet file"]
    if host.refuses_us:
        problems.append(f"it refuses us: {host.refuses_us}")
    if host.we_refuse:
        problems.append(f"we refuse it: {host.we_refuse}")
    return "; ".join(problems) or ("both ways" if host.heard_at else "not heard")


def print_problems(status: Status) -> None:
    """What is wrong, and the next step."""
    if status.problems or status.next_step:
        print()
    for problem in status.problems:
        say(f"problem: {one_line(problem, 500)}", indent="         ")
    if status.next_step:
        say(f"next: {one_line(status.next_step, 500)}", indent="      ")
