"""`list`, `ping`: who there is in the fleet, and how far away a host is."""

from __future__ import annotations

import click

from fleettrio.api.schema import AgentView, Empty, Fleet, HostView, Ping, Pong
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.fleetview import host_words, lead_words, trust_of
from fleettrio.clients.cli.table import at_time, print_json, print_table, say
from fleettrio.local.sanitise import one_line

__all__ = ("list_agents", "ping")


@click.command("list", epilog="\b\nExamples:\n  fleettrio list\n  fleettrio list --json")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def list_agents(as_json: bool) -> int:
    """Every agent and host of the fleet."""
    with connect() as client:
        fleet: Fleet = client.call("list", Empty())
    if as_json:
        print_json(fleet)
        return 0
    _print_agents(fleet.agents)
    print()
    _print_hosts(fleet.hosts)
    if fleet.coordination:
        say("\n" + lead_words(fleet.coordination), indent="  ")
    _print_started(fleet)
    return 0


def _print_started(fleet: Fleet) -> None:
    """What may be started where, and how to look at what was."""
    with_profiles = [host for host in fleet.hosts if host.profiles]
    panes = [agent for agent in fleet.agents if agent.attach]
    if with_profiles or panes:
        print()
    for host in with_profiles:
        say(one_line(f"profiles of {host.host}: {', '.join(host.profiles)}", 500), indent="  ")
    for agent in panes:
        say(f"to look at {agent.name}: {agent.attach}", indent="  ")


def _print_agents(agents: list[AgentView]) -> None:
    """One line an agent."""
    if not agents:
        say("no agents yet: fleettrio claude --name NAME, or codex, opencode, attach", indent="  ")
        return
    print_table(
        ("AGENT", "STATE", "SINCE", "TAKES", "WAKES", "WAITING", "RUNS, ROLE"),
        (
            (
                agent.address,
                agent.status + (", paused" if agent.paused else ""),
                at_time(agent.since),
                f"{agent.takes} ({agent.path})" if agent.path and agent.path != agent.takes else agent.takes,
                "yes" if agent.wakes else "no",
                ("full" if agent.full else str(agent.waiting or "-")),
                _role_of(agent),
            )
            for agent in agents
        ),
        whole=("AGENT", "SINCE"),
        is_wide=True,
    )


def _role_of(agent: AgentView) -> str:
    groups = f"groups: {', '.join(agent.groups)}" if agent.groups else ""
    return " · ".join(filter(None, (agent.harness, agent.role, groups))) or "-"


def _print_hosts(hosts: list[HostView]) -> None:
    """One line a host, with what stands between it and us."""
    print_table(
        ("HOST", "STATE", "CLOCK", "AGENTS", "VERSION", "TRUST"),
        (
            (
                host.host + (" (here)" if host.is_self else ""),
                host_words(host),
                "-" if host.is_self or not host.heard_at else f"{host.offset_ms / 1000:+z.1f} s",
                str(host.agents),
                host.version or "-",
                trust_of(host),
            )
            for host in hosts
        ),
        whole=("HOST",),
        is_wide=True,
    )


@click.command(epilog="\b\nExamples:\n  fleettrio ping beta\n  fleettrio ping worker@beta --json")
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def ping(target: str, as_json: bool) -> int:
    """There and back: round trip, version, clock, and whether they trust us."""
    with connect() as client:
        pong: Pong = client.call("ping", Ping(target))
    if as_json:
        print_json(pong)
        return 0
    trust = "trusts us" if pong.trusts_us else "does not trust us: import the fleet file there (fleettrio host import)"
    parts = [f"{pong.rtt_ms:.1f} ms", f"version {pong.version}", f"clock {pong.offset_ms / 1000:+z.1f} s", trust]
    say(one_line(f"{pong.host}: {', '.join(parts)}", 200), indent="  ")
    if pong.agent:
        say(one_line(f"{pong.agent} is {pong.agent_status}", 200), indent="  ")
    return 0
