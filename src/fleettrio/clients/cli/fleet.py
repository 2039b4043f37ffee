"""`fleettrio host`: which hosts the fleet trusts, and for what.

Its commands change files and then tell a running daemon to read them again; but for `forget`, none needs one.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
from typing import BinaryIO

import click
import msgspec

from fleettrio import fleet_owner, identity, keyfiles
from fleettrio.api.schema import Done, ForgetHost
from fleettrio.clients.cli.connect import connect, reload_daemon
from fleettrio.clients.cli.group import Group
from fleettrio.clients.cli.person import require_person
from fleettrio.clients.cli.table import say
from fleettrio.clock import SystemClock
from fleettrio.config import Config, load_config
from fleettrio.errors import ConfigError
from fleettrio.ids import HostId
from fleettrio.wire.fingerprint import fingerprint, words
from fleettrio.wire.fleet import ALL_GRANTS, DEFAULT_GRANTS, Fleet, is_grant
from fleettrio.wire.gids import NAME_RULE, is_name
from fleettrio.wire.hostline import read_host_line

__all__ = ("host",)

FLEET_FILE_LIMIT = 1024 * 1024
"""Bytes read from a file that somebody carried here, before anything looks at them."""
_NEXT = " " * len("next: ")


class HostRow(msgspec.Struct):
    """One host of the fleet file."""

    host: str
    is_self: bool
    revoked: bool
    generations: list[int]
    grants: list[str]
    coord_id: str
    words: str
    fingerprint: str
    not_after: int


class HostTable(msgspec.Struct):
    """What `host list --json` prints."""

    fleet: str
    rev: int
    is_owner: bool
    owner_words: str
    owner_fingerprint: str
    not_after: int
    problem: str
    hosts: list[HostRow]


@click.group(cls=Group, epilog="\b\nExample:\n  fleettrio host list")
def host() -> None:
    """Which hosts this fleet trusts, and for what."""


@host.command("list", epilog="\b\nExample:\n  fleettrio host list --json")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def list_hosts(as_json: bool) -> None:
    """List the hosts of the fleet file with their keys' words and their grants."""
    config = load_config(os.environ)
    me = _require_key(config)
    table = _table(me, is_owner=keyfiles.read_owner_key(config.paths) is not None)
    if as_json:
        click.echo(msgspec.json.encode(table))
        return
    if me.is_solo:
        click.echo(f"host {me.host} joined no fleet: it reaches the agents on this machine.")
        say("next: `fleettrio init --new-fleet NAME` here, or `fleettrio host import FILE` from an owner", indent=_NEXT)
        return
    click.echo(f"fleet {table.fleet}, revision {table.rev}" + (" (this is the owner's host)" if table.is_owner else ""))
    click.echo(f"owner: {table.owner_words}")
    for row in table.hosts:
        marks = [mark for mark, holds in (("this host", row.is_self), ("REVOKED", row.revoked)) if holds]
        click.echo(f"\n{row.host}" + (f"  ({', '.join(marks)})" if marks else ""))
        click.echo(f"  {row.words}")
        click.echo(f"  may: {' '.join(row.grants)}")
        if row.coord_id:
            click.echo(f"  its lead is: {row.coord_id}")
    if me.fleet.is_expired(SystemClock().wall()):
        click.echo(f"\nwarning: this fleet file ended on {_day(table.not_after)}; sign a new one on the owner's host")
    if table.problem:
        click.echo(f"\nproblem: {table.problem}")


@host.command(
    epilog="\b\nExamples:\n  fleettrio host add ft-host-1:… --grants send,ask,reply,broadcast,report\n"
    "  fleettrio host add ft-host-1:… --coord-id lead-b"
)
@click.argument("line")
@click.option(
    "--grants",
    default=",".join(sorted(DEFAULT_GRANTS)),
    show_default=True,
    help="What its agents may do here: send ask reply broadcast stop pause report spawn:PROFILE.",
)
@click.option("--coord-id", metavar="ID", help="In a coordinator's fleet: the name of the lead on that host.")
@click.option("--yes", is_flag=True, help="Do not ask: the words were compared already.")
def add(line: str, grants: str, coord_id: str | None, yes: bool) -> None:
    """On the owner's host: trust the host whose `init` printed LINE, and sign the next revision."""
    config = load_config(os.environ)
    require_person(config.paths)
    if coord_id and not is_name(coord_id):
        raise click.UsageError(f"{coord_id!r} is not a coordId ({NAME_RULE})")
    added = read_host_line(line)
    click.echo(f"host {added.host}, key generation {added.gen}:")
    _show_key(added.key)
    _ask(f"Do the same words stand on {added.host}'s screen?", yes=yes)
    fleet = fleet_owner.add_host(config.paths, added, _read_grants(grants), SystemClock().wall(), coord_id)
    click.echo(f"host {added.host} is in fleet {fleet.fleet_id}, revision {fleet.rev}")
    say(
        "next: `fleettrio host export > fleet.cbor` here, then `fleettrio host import fleet.cbor` on every host",
        indent=_NEXT,
    )
    reload_daemon()


@host.command(epilog="\b\nExample:\n  fleettrio host export > fleet.cbor")
def export() -> None:
    """Write the signed fleet file to standard output. It holds no secret; whoever carries it need not be trusted."""
    config = load_config(os.environ)
    if identity.load_fleet(config.paths) is None:
        raise ConfigError(
            ["this host joined no fleet; there is nothing to export"], hint="fleettrio init --new-fleet NAME"
        )
    if sys.stdout.isatty():
        raise click.UsageError("the fleet file is binary: send it to a file, fleettrio host export > fleet.cbor")
    sys.stdout.buffer.write(config.paths.fleet_file.read_bytes())


@host.command(
    "import",
    epilog="\b\nExamples:\n  fleettrio host import fleet.cbor\n  fleettrio host import --coordinator leads.cbor",
)
@click.argument("file", type=click.File("rb"))
@click.option("--coordinator", is_flag=True, help="It is the file of the coordinator, by which leads talk.")
@click.option("--yes", is_flag=True, help="Do not ask: the owner's words were compared already.")
def import_file(file: BinaryIO, coordinator: bool, yes: bool) -> None:
    """Take over a fleet file. The first one pins its owner's key, after you compared the owner's words."""
    config = load_config(os.environ)
    require_person(config.paths)
    _require_key(config)
    data = file.read(FLEET_FILE_LIMIT + 1)
    if len(data) > FLEET_FILE_LIMIT:
        raise ConfigError([f"{file.name} is not a fleet file: it is larger than {FLEET_FILE_LIMIT} bytes"])

    def accept_owner(fleet: Fleet) -> bool:
        click.echo(f"fleet {fleet.fleet_id}, revision {fleet.rev}, {len(fleet.hosts)} hosts. Its owner's key:")
        _show_key(fleet.owner_key)
        _ask("Do the same words stand on the owner's screen (`fleettrio host list` there)?", yes=yes)
        return True

    paths = config.paths.of_coordinator if coordinator else config.paths
    is_first = identity.load_fleet(paths) is None
    fleet = identity.import_fleet(paths, data, accept_owner)
    click.echo(f"fleet {fleet.fleet_id}, revision {fleet.rev}: {' '.join(sorted(fleet.hosts))}")
    if coordinator and is_first:
        say(
            "next: a daemon that runs already takes it when it is started again: fleettrio down, fleettrio up",
            indent=_NEXT,
        )
    problem = "" if coordinator else _require_key(config).problem
    if problem:
        click.echo(f"problem: {problem}")
    reload_daemon()


@host.command(epilog="\b\nExample:\n  fleettrio host revoke old-laptop")
@click.argument("host_id", metavar="HOST")
@click.option("--yes", is_flag=True, help="Do not ask.")
def revoke(host_id: str, yes: bool) -> None:
    """On the owner's host: trust HOST no more, whatever it still sends, and sign the next revision."""
    config = load_config(os.environ)
    require_person(config.paths)
    known = identity.load_fleet(config.paths)
    if known is not None and host_id not in known.hosts:
        there_are = " ".join(sorted(known.hosts))
        raise ConfigError([f"there is no host {host_id!r} in fleet {known.fleet_id} (there are: {there_are})"])
    _ask(f"Revoke every key of {host_id}? It cannot be taken back.", yes=yes)
    fleet = fleet_owner.revoke_host(config.paths, HostId(host_id), SystemClock().wall())
    click.echo(f"host {host_id} is revoked in fleet {fleet.fleet_id}, revision {fleet.rev}")
    say(
        "next: `fleettrio host export > fleet.cbor` here, then `fleettrio host import fleet.cbor` on the others",
        indent=_NEXT,
    )
    reload_daemon()


@host.command(epilog="\b\nExample:\n  fleettrio host forget old-laptop")
@click.argument("host_id", metavar="HOST")
def forget(host_id: str) -> None:
    """Take HOST and its agents off this host's list. Trust stays as it is; heard again, it is known again."""
    with connect() as client:
        done: Done = client.call("forget_host", ForgetHost(host_id))
    click.echo(done.detail)


def _require_key(config: Config) -> identity.Identity:
    found = identity.find_identity(config.paths, config)
    if found is None:
        raise ConfigError(["this host has no key yet"], hint="fleettrio init")
    return found


def _table(me: identity.Identity, *, is_owner: bool) -> HostTable:
    fleet = me.fleet
    rows = [
        HostRow(
            host=entry.host,
            is_self=entry.host == me.host,
            revoked=all((entry.host, key.gen) in fleet.revoked for key in entry.keys),
            generations=[key.gen for key in entry.keys],
            grants=sorted(entry.grants),
            coord_id=entry.coord_id,
            words=words(entry.keys[-1].key),
            fingerprint=fingerprint(entry.keys[-1].key),
            not_after=entry.not_after,
        )
        for entry in sorted(fleet.hosts.values(), key=lambda entry: entry.host)
    ]
    return HostTable(
        fleet=fleet.fleet_id,
        rev=fleet.rev,
        is_owner=is_owner,
        owner_words=words(fleet.owner_key),
        owner_fingerprint=fingerprint(fleet.owner_key),
        not_after=fleet.not_after,
        problem=me.problem,
        hosts=rows,
    )


def _read_grants(text: str) -> frozenset[str]:
    grants = frozenset(word.strip() for word in text.split(",") if word.strip())
    for grant in sorted(grants):
        if not is_grant(grant):
            there_are = " ".join(sorted(ALL_GRANTS))
            raise click.UsageError(f"{grant!r} is not a grant (there are: {there_are} spawn:PROFILE)")
    return grants


def _show_key(key: bytes) -> None:
    click.echo(f"  {words(key)}")
    click.echo(f"  {fingerprint(key)}")


def _ask(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is here to ask: compare the words, then add --yes")
    click.confirm(question, abort=True)


def _day(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime("%d %B %Y")
