"""`status` and `doctor`: how this host is, and what to do about it."""

from __future__ import annotations

import os

import click

from fleettrio.api.schema import Check, DoctorReport, Done, Empty, Status
from fleettrio.clients.cli.body import DURATION
from fleettrio.clients.cli.connect import connect, try_connect
from fleettrio.clients.cli.fleetview import broker_words, print_problems, print_top
from fleettrio.clients.cli.harnesschecks import set_up_again
from fleettrio.clients.cli.offline import offline_checks
from fleettrio.clients.cli.person import require_person
from fleettrio.clients.cli.probe import probe
from fleettrio.clients.cli.table import at_time, print_json, say
from fleettrio.clients.client import CallFailed, ConnectionLost
from fleettrio.errors import FAILED, NO_BROKER
from fleettrio.home import resolve_paths
from fleettrio.local.sanitise import one_line

__all__ = ("doctor", "status")

_FIXES = {"clock": "accept_clock", "clone": "copy_ended", "safe": "leave_safe"}
"""What the daemon is told by each."""
_SETUP = "setup"
_NAME_LIMIT = 40
"""Of what was looked at."""


@click.command(epilog="\b\nExamples:\n  fleettrio status\n  fleettrio status --check || fleettrio doctor")
@click.option("--check", is_flag=True, help="Exit 3 when something is wrong, 8 when the broker is not reached.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def status(check: bool, as_json: bool) -> int:
    """This host's daemon: its broker, mail, problems."""
    with connect() as client:
        found: Status = client.call("status", Empty())
    if as_json:
        print_json(found)
    else:
        _print_status(found)
    if not check:
        return 0
    if found.broker not in ("standalone", "connected"):
        return NO_BROKER
    return FAILED if found.problems else 0


def _print_status(found: Status) -> None:
    print_top(found)
    refused = ", ".join(f"{one_line(reason, 40)} {count}" for reason, count in sorted(found.refused.items()))
    how = f"{found.implementation}, {found.lane} lane" if found.lane else found.implementation
    facts = [
        ("daemon", f"version {found.version} ({how}), process {found.pid}"),
        ("started", at_time(found.started_at)),
        ("home", found.home),
        ("broker", broker_words(found)),
        ("hosts", f"{len(found.fleet.hosts)}, agents {len(found.fleet.agents)}"),
        ("refused", refused or "none"),
    ]
    for name, value in facts:
        say(f"  {name:<8} {value}", indent=" " * 11)
    print_problems(found)


@click.command(
    epilog="\b\nExamples:\n  fleettrio doctor\n  fleettrio doctor --json\n  fleettrio doctor --fix clock\n"
    "  fleettrio doctor --probe claude",
)
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@click.option(
    "--fix",
    type=click.Choice([*_FIXES, _SETUP]),
    help="clock: this host's clock is right, though it was ahead once. clone: no other machine uses its key any more."
    " safe: what made the daemon die again and again is mended. setup: what `fleettrio setup` wrote is written again"
    " where it is missing.",
)
@click.option(
    "--probe", "harness", metavar="HARNESS", help="Send one marked message to an agent in this harness: did it see it?"
)
@click.option("--limit", type=DURATION, default="60s", show_default=True, help="How long --probe waits.")
def doctor(as_json: bool, fix: str | None, harness: str | None, limit: float) -> int:
    """Look for what is wrong. Each line is `ok`, or a problem and what mends it.

    Works without a daemon too, and then sees less. Exit code 3 when there is a problem.

    With --probe: exit code 0 when the agent saw the message, 5 when nobody knows, 3 when it was not delivered.
    """
    if harness:
        return probe(harness, limit_s=limit, as_json=as_json)
    if fix == _SETUP:
        return _set_up_again()
    if fix:
        with connect() as client:
            done: Done = client.call(_FIXES[fix], Empty())
        say(done.detail)
        return 0
    checks = offline_checks(os.environ) + _daemon_checks()
    if as_json:
        print_json(DoctorReport(checks))
    else:
        _print_checks(checks)
    return 0 if all(check.ok for check in checks) else FAILED


def _set_up_again() -> int:
    paths = resolve_paths(os.environ)
    require_person(paths)
    written = set_up_again(os.environ, paths)
    say(f"written: {', '.join(written)}" if written else "nothing that was set up is missing")
    return 0


def _daemon_checks() -> list[Check]:
    """What the running daemon knows of itself."""
    try:
        client = try_connect()
        if client is None:
            return [Check("daemon", ok=False, detail="not running", fix="fleettrio up")]
        with client:
            report: DoctorReport = client.call("doctor", Empty())
            detail = f"running, process {client.welcome.pid}"
    except (CallFailed, ConnectionLost) as problem:
        return [Check("daemon", ok=False, detail=str(problem), fix=problem.hint)]
    return [Check("daemon", ok=True, detail=detail), *report.checks]


def _print_checks(checks: list[Check]) -> None:
    names = [one_line(check.name, _NAME_LIMIT) for check in checks]
    wide = max(map(len, names))
    for name, check in zip(names, checks, strict=True):
        mark = "ok" if check.ok else "problem"
        say(f"{name:<{wide}}  {mark:<7}  {one_line(check.detail, 400)}", indent=" " * (wide + 11))
        if not check.ok and check.fix:
            say(f"{'':<{wide}}  → {one_line(check.fix, 400)}", indent=" " * (wide + 4))
    bad = sum(not check.ok for check in checks)
    print("all is well" if not bad else f"{bad} of {len(checks)} checks found a problem")
