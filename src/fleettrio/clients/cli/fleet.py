"""`fleettrio init` and `fleettrio host`: this host's key, and which hosts the fleet trusts.

They change files and then tell a running daemon to read them again; none of them needs one.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
from typing import BinaryIO

import click
import msgspec

from fleettrio import identity
from fleettrio.clients.cli.config import add_broker
from fleettrio.clients.cli.connect import try_reload
from fleettrio.clients.cli.person import require_person
from fleettrio.clock import SystemClock
from fleettrio.config import NAME_RULE, Config, Paths, load_config
from fleettrio.errors import ConfigError
from fleettrio.ids import FleetId, HostId
from fleettrio.wire.fleetfile import (
    ALL_GRANTS,
    DEFAULT_GRANTS,
    Fleet,
    fingerprint,
    host_line,
    is_grant,
    read_host_line,
    words,
)
from fleettrio.wire.gids import is_fleet_id, is_name

__all__ = ("host", "init")

FLEET_FILE_LIMIT = 1024 * 1024
"""Bytes read from a file that somebody carried here, before anything looks at them."""


class HostRow(msgspec.Struct):
    """One host of the fleet file."""

    host: str
    is_self: bool
    revoked: bool
    generations: list[int]
    grants: list[str]
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


@click.command(epilog="\b\nExample:\n  fleettrio init --host laptop\n  fleettrio init --host hub --new-fleet prod")
@click.option("--host", "host_id", metavar="ID", help="Id of this host; default: made from the host name.")
@click.option("--new-fleet", metavar="NAME", help="Found a fleet: this host becomes its owner's.")
@click.option("--broker", metavar="URI", help="Write this broker into the configuration; its password goes to a file.")
def init(host_id: str | None, new_fleet: str | None, broker: str | None) -> None:
    """Make this host's key, and say what to do next. Running it again changes nothing and prints the same line."""
    config = load_config(os.environ)
    require_person(config.paths)
    paths = config.paths
    name = _wanted_host(config, host_id)
    if new_fleet is not None and (not is_fleet_id(new_fleet) or new_fleet.startswith("solo-")):
        raise click.UsageError(
            f"{new_fleet!r} is no fleet name: lower-case letters, digits and hyphens, at most 63, not solo-…"
        )
    existed = identity.read_host_key(paths)
    key = identity.rename_host(paths, name)
    if broker is not None:
        add_broker(paths, broker)
    identity.make_operator_token(paths)
    line = host_line(HostId(key.host), key.gen, key.seed_bytes)
    click.echo(f"host {key.host}: key {'kept' if existed else 'made'} in {paths.keys_dir}")
    click.echo(f"  {words(read_host_line(line).key)}")
    if new_fleet is not None:
        fleet = identity.create_fleet(paths, FleetId(new_fleet), SystemClock().wall())
        click.echo(f"fleet {fleet.fleet_id}: founded, revision {fleet.rev}; this is its owner's host. Owner's words:")
        click.echo(f"  {words(fleet.owner_key)}")
    click.echo("\nThe line that tells this host's key to others (no secret in it):\n")
    click.echo(line)
    click.echo("\n" + _next_step(paths))
    _reload()


@click.group(epilog="\b\nExample:\n  fleettrio host list")
def host() -> None:
    """Which hosts this fleet trusts, and for what."""


@host.command("list", epilog="\b\nExample:\n  fleettrio host list --json")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def list_hosts(as_json: bool) -> None:
    """List the hosts of the fleet file with their keys' words and their grants."""
    config = load_config(os.environ)
    me = _require_key(config)
    table = _table(me, is_owner=identity.read_owner_key(config.paths) is not None)
    if as_json:
        click.echo(msgspec.json.encode(table))
        return
    if me.is_solo:
        click.echo(f"host {me.host} joined no fleet: it reaches the agents on this machine.")
        click.echo("next: `fleettrio init --new-fleet NAME` here, or `fleettrio host import FILE` from an owner")
        return
    click.echo(f"fleet {table.fleet}, revision {table.rev}" + (" (this is the owner's host)" if table.is_owner else ""))
    click.echo(f"owner: {table.owner_words}")
    for row in table.hosts:
        marks = [mark for mark, holds in (("this host", row.is_self), ("REVOKED", row.revoked)) if holds]
        click.echo(f"\n{row.host}" + (f"  ({', '.join(marks)})" if marks else ""))
        click.echo(f"  {row.words}")
        click.echo(f"  may: {' '.join(row.grants)}")
    if me.fleet.is_expired(SystemClock().wall()):
        click.echo(f"\nwarning: this fleet file ended on {_day(table.not_after)}; sign a new one on the owner's host")
    if table.problem:
        click.echo(f"\nproblem: {table.problem}")


@host.command(epilog="\b\nExample:\n  fleettrio host add ft-host-1:… --grants send,ask,reply,broadcast,report")
@click.argument("line")
@click.option(
    "--grants",
    default=",".join(sorted(DEFAULT_GRANTS)),
    show_default=True,
    help="What its agents may do here: send ask reply broadcast stop pause report spawn:PROFILE.",
)
@click.option("--yes", is_flag=True, help="Do not ask: the words were compared already.")
def add(line: str, grants: str, yes: bool) -> None:
    """On the owner's host: trust the host whose `init` printed LINE, and sign the next revision."""
    config = load_config(os.environ)
    require_person(config.paths)
    added = read_host_line(line)
    click.echo(f"host {added.host}, key generation {added.gen}:")
    _show_key(added.key)
    _ask(f"Do the same words stand on {added.host}'s screen?", yes=yes)
    fleet = identity.add_host(config.paths, added, _read_grants(grants), SystemClock().wall())
    click.echo(f"host {added.host} is in fleet {fleet.fleet_id}, revision {fleet.rev}")
    click.echo("next: `fleettrio host export > fleet.cbor` here, then `fleettrio host import fleet.cbor` on every host")
    _reload()


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


@host.command("import", epilog="\b\nExample:\n  fleettrio host import fleet.cbor")
@click.argument("file", type=click.File("rb"))
@click.option("--yes", is_flag=True, help="Do not ask: the owner's words were compared already.")
def import_file(file: BinaryIO, yes: bool) -> None:
    """Take over a fleet file. The first one pins its owner's key, after you compared the owner's words."""
    config = load_config(os.environ)
    require_person(config.paths)
    _require_key(config)
    data = file.read(FLEET_FILE_LIMIT + 1)
    if len(data) > FLEET_FILE_LIMIT:
        raise ConfigError([f"{file.name} is no fleet file: it is larger than {FLEET_FILE_LIMIT} bytes"])

    def accept_owner(fleet: Fleet) -> bool:
        click.echo(f"fleet {fleet.fleet_id}, revision {fleet.rev}, {len(fleet.hosts)} hosts. Its owner's key:")
        _show_key(fleet.owner_key)
        _ask("Do the same words stand on the owner's screen (`fleettrio host list` there)?", yes=yes)
        return True

    fleet = identity.import_fleet(config.paths, data, accept_owner)
    click.echo(f"fleet {fleet.fleet_id}, revision {fleet.rev}: {' '.join(sorted(fleet.hosts))}")
    problem = _require_key(config).problem
    if problem:
        click.echo(f"problem: {problem}")
    _reload()


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
    fleet = identity.revoke_host(config.paths, HostId(host_id), SystemClock().wall())
    click.echo(f"host {host_id} is revoked in fleet {fleet.fleet_id}, revision {fleet.rev}")
    click.echo("next: `fleettrio host export > fleet.cbor` here, then `fleettrio host import fleet.cbor` on the others")
    _reload()


def _require_key(config: Config) -> identity.Identity:
    found = identity.find_identity(config.paths, config)
    if found is None:
        raise ConfigError(["this host has no key yet"], hint="fleettrio init")
    return found


def _wanted_host(config: Config, asked: str | None) -> HostId:
    """The id asked for; else the one beside the key; else the configured one, or one made from the host name."""
    if asked is not None and not is_name(asked):
        raise click.UsageError(f"{asked!r} is no host id ({NAME_RULE})")
    if asked is not None and config.host.id and asked != config.host.id:
        raise ConfigError([f"host.id: is {config.host.id!r} in the configuration, and --host says {asked!r}"])
    key = identity.read_host_key(config.paths)
    if asked is None:
        return HostId(key.host) if key is not None else config.host_id
    return HostId(asked)


def _next_step(paths: Paths) -> str:
    if identity.read_owner_key(paths) is not None:
        return "next: `fleettrio host add LINE` with the line of another host, then `fleettrio up`"
    if identity.load_fleet(paths) is not None:
        return "next: `fleettrio up`"
    return (
        "next: give that line to the fleet's owner (`fleettrio host add LINE`), then `fleettrio host import FILE`;\n"
        "or stay on this machine alone: `fleettrio up`"
    )


def _table(me: identity.Identity, *, is_owner: bool) -> HostTable:
    fleet = me.fleet
    rows = [
        HostRow(
            host=entry.host,
            is_self=entry.host == me.host,
            revoked=all((entry.host, key.gen) in fleet.revoked for key in entry.keys),
            generations=[key.gen for key in entry.keys],
            grants=sorted(entry.grants),
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
            raise click.UsageError(f"{grant!r} is no grant (there are: {' '.join(sorted(ALL_GRANTS))} spawn:PROFILE)")
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


def _reload() -> None:
    if try_reload():
        click.echo("the running daemon took it")


def _day(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime("%d %B %Y")
