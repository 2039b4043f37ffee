"""`fleettrio init`: this host's key, and with it a fleet or a broker, if wanted."""

from __future__ import annotations

import os

import click

from fleettrio.clients.cli.config import add_broker
from fleettrio.clients.cli.connect import reload_daemon
from fleettrio.clients.cli.person import require_person
from fleettrio.clients.cli.table import say
from fleettrio.clock import SystemClock
from fleettrio.config import Config, Paths, load_config
from fleettrio.errors import ConfigError
from fleettrio.fleet_owner import create_fleet
from fleettrio.identity import load_fleet
from fleettrio.ids import FleetId, HostId
from fleettrio.keyfiles import make_operator_token, read_host_key, read_owner_key, rename_host
from fleettrio.wire.fingerprint import words
from fleettrio.wire.gids import NAME_RULE, is_fleet_id, is_name
from fleettrio.wire.hostline import host_line, read_host_line

__all__ = ("init",)

_NEXT = " " * len("next: ")


@click.command(epilog="\b\nExamples:\n  fleettrio init --host laptop\n  fleettrio init --host hub --new-fleet prod")
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
            f"{new_fleet!r} is not a fleet name: lower-case letters, digits and hyphens, at most 63, not solo-…"
        )
    existed = read_host_key(paths)
    key = rename_host(paths, name)
    if broker is not None:
        add_broker(paths, broker)
    make_operator_token(paths)
    line = host_line(HostId(key.host), key.gen, key.seed_bytes)
    click.echo(f"host {key.host}: key {'kept' if existed else 'made'} in {paths.keys_dir}")
    click.echo(f"  {words(read_host_line(line).key)}")
    if new_fleet is not None:
        fleet = create_fleet(paths, FleetId(new_fleet), SystemClock().wall())
        click.echo(f"fleet {fleet.fleet_id}: founded, revision {fleet.rev}; this is its owner's host. Owner's words:")
        click.echo(f"  {words(fleet.owner_key)}")
    click.echo("\nThe line that tells this host's key to others (no secret in it):\n")
    click.echo(line)
    click.echo()
    say(_next_step(paths), indent=_NEXT)
    reload_daemon()


def _wanted_host(config: Config, asked: str | None) -> HostId:
    """The id asked for; else the one beside the key; else the configured one, or one made from the host name."""
    if asked is not None and not is_name(asked):
        raise click.UsageError(f"{asked!r} is not a host id ({NAME_RULE})")
    if asked is not None and config.host.id and asked != config.host.id:
        raise ConfigError([f"host.id: is {config.host.id!r} in the configuration, and --host says {asked!r}"])
    key = read_host_key(config.paths)
    if asked is None:
        return HostId(key.host) if key is not None else config.host_id
    return HostId(asked)


def _next_step(paths: Paths) -> str:
    if read_owner_key(paths) is not None:
        return "next: `fleettrio host add LINE` with the line of another host, then `fleettrio up`"
    if load_fleet(paths) is not None:
        return "next: `fleettrio up`"
    return (
        "next: give that line to the fleet's owner (`fleettrio host add LINE`), then `fleettrio host import FILE`; "
        "or stay on this machine alone: `fleettrio up`"
    )
