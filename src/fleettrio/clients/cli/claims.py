"""`claim` and `release`: who works on what, decided by one host for everybody."""

from __future__ import annotations

import click

from fleettrio.api.schema.claims import Claim, Claimed, Claims, ListClaims, Release
from fleettrio.clients.cli.body import not_blank
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.table import at_time, note, print_error, print_json, print_table, say
from fleettrio.errors import FAILED

__all__ = ("claim", "release")


@click.command(
    epilog="\b\nExamples:\n"
    "  fleettrio claim issue-149\n"
    "  fleettrio claim beta:issue-149\n"
    "  fleettrio claim issue-149 --lapsed\n"
    "  fleettrio claim --list"
)
@click.argument("key", required=False, callback=not_blank)
@click.option("--lapsed", is_flag=True, help="Take it from a holder who has not been seen for 10 minutes.")
@click.option("--list", "listed", is_flag=True, help="Who holds what here; at another host: --list HOST.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def claim(key: str, lapsed: bool, listed: bool, as_json: bool) -> int:
    """Say that you work on KEY: the first who asks has it, the others learn who that is.

    This host decides about KEY, or the one in HOST:KEY. The claim stays yours as long as you are there; 10 minutes
    after you were last seen another may take it. Exit code 3: somebody else has it.

    The fence is a number that is higher with each claim that is granted: by it, who had the key once and comes back
    late is told apart from who has it now.
    """
    if listed:
        return _list(key, as_json=as_json)
    if not key:
        raise click.UsageError("which key? Name what you work on, as in issue-149")
    with connect() as client:
        claimed: Claimed = client.call("claim", Claim(key, lapsed))
    if as_json:
        print_json(claimed)
    elif claimed.granted:
        say(f"{claimed.key} is yours (fence {claimed.fence}, decided by {claimed.arbiter})")
    if claimed.granted:
        return 0
    since = f"since {at_time(claimed.at)}, fence {claimed.fence}"
    hint = "wait for its release, or ask for it"
    if claimed.lapsed:
        hint = f"not seen for 10 minutes: `fleettrio claim {key} --lapsed` takes it"
    print_error(f"{claimed.key} is held by {claimed.holder} ({since})", hint)
    return FAILED


@click.command(epilog="\b\nExamples:\n  fleettrio release issue-149\n  fleettrio release beta:issue-149 --fence 12")
@click.argument("key")
@click.option("--fence", type=click.IntRange(1), help="Only if your claim still has this number (claim --help).")
def release(key: str, fence: int | None) -> int:
    """Let go of KEY, which you claimed."""
    with connect() as client:
        done = client.call("release", Release(key, fence))
    say(done.detail)
    return 0


def _list(host: str, *, as_json: bool) -> int:
    with connect() as client:
        found: Claims = client.call("claims", ListClaims(host))
    if as_json:
        print_json(found)
        return 0
    rows = [(c.key, c.holder, at_time(c.at), str(c.fence), "lapsed" if c.lapsed else "") for c in found.claims]
    if rows:
        print_table(("key", "held by", "since", "fence", ""), rows, whole=("key", "since"))
    else:
        say(f"nobody holds a claim at {found.arbiter}")
    if found.cut:
        note("there are more; these are the first")
    return 0
