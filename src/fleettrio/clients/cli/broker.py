"""`fleettrio broker`: what must be on the broker, whether it is, and what each host's login may do there.

Everything goes through the broker's AMQP port: no management interface is needed. What is needed, and which rights, is
data in `core.topology` and `core.permissions`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

import click
import msgspec

from fleettrio.broker_section import BrokerSection
from fleettrio.clients.cli.brokerlooks import CheckView, compare, make_shared, own_inboxes, print_looks
from fleettrio.clients.cli.brokerplan import PolicyView, plan_of, policy_lines, print_plan
from fleettrio.clients.cli.group import Group
from fleettrio.clients.cli.table import print_json, say
from fleettrio.config import Config, load_config
from fleettrio.core.permissions import coordinator_permissions_of, permissions_of, rabbitmqctl_lines
from fleettrio.core.topology import COORDINATOR_EXCHANGES, EXCHANGES
from fleettrio.errors import FAILED, ConfigError
from fleettrio.ids import HostId
from fleettrio.keyfiles import read_host_key
from fleettrio.wire.gids import NAME_RULE, is_name

if TYPE_CHECKING:
    from fleettrio.broker.port import BrokerSettings

__all__ = ("broker",)


class RightsView(msgspec.Struct):
    host: str
    user: str
    vhost: str
    configure: str
    write: str
    read: str
    topic_write: str
    lines: list[str]


_HOST = click.option("--host", "host_id", metavar="HOST", help="Another host's queues than this one's.")
_USER = click.option("--user", metavar="NAME", help="Log in as this user, an administrator's for instance.")
_PASSWORD = click.option("--password-file", metavar="FILE", help="Where that user's password is; else it is asked for.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")


@click.group(cls=Group, epilog="\b\nExample:\n  fleettrio broker check")
def broker() -> None:
    """What must be on the broker, whether it is, and who may do what there."""


@broker.command(
    epilog="\b\nExamples:\n  fleettrio broker plan\n  fleettrio broker plan --policy\n"
    "  fleettrio broker plan --apply --user admin\n"
    "  fleettrio broker plan --coordinator --apply --user admin"
)
@_HOST
@click.option("--policy", is_flag=True, help="The lines that lower limits by policy: put smaller numbers in.")
@click.option("--coordinator", is_flag=True, help="What leads need in the coordinator's virtual host instead.")
@click.option("--apply", "is_applied", is_flag=True, help="Make what the fleet shares, once, as an administrator.")
@_USER
@_PASSWORD
@_JSON
def plan(
    host_id: str | None,
    policy: bool,
    coordinator: bool,
    is_applied: bool,
    user: str | None,
    password_file: str | None,
    as_json: bool,
) -> int:
    """The exchanges, queues and bindings that the fleet needs, with every argument.

    Without --apply nothing is made, and no broker is asked.
    """
    if policy and (is_applied or coordinator):
        raise click.UsageError("--policy goes with neither --apply nor --coordinator")
    config = load_config(os.environ)
    coord_id = config.coordinator.coord_id if coordinator else ""
    if coordinator and not coord_id:
        raise ConfigError(["this host has no [coordinator] in its configuration"])
    if policy:
        lines = policy_lines(_vhost_of(config.broker_section, ""))
        return _print_lines(PolicyView(lines), lines, as_json=as_json)
    if is_applied:
        broker = config.coordinator_broker() if coordinator else config.broker()
        make_shared(_settings(config, user, password_file, broker), COORDINATOR_EXCHANGES if coordinator else EXCHANGES)
    elif user or password_file:
        raise click.UsageError("--user and --password-file go with --apply")
    view = plan_of(_host(config, host_id), coord_id)
    if as_json:
        print_json(view)
    elif is_applied:
        say("what the fleet shares is there; each host makes its own queues when it connects")
    else:
        print_plan(view)
    return 0


@broker.command(epilog="\b\nExamples:\n  fleettrio broker check\n  fleettrio broker check --user admin")
@_USER
@_PASSWORD
@_JSON
def check(user: str | None, password_file: str | None, as_json: bool) -> int:
    """Compare what is on the broker with the plan; nothing is changed. Exit code 3 when something is wrong.

    A host's own login can compare its own queues; what the fleet shares is compared by a login that may configure it.
    Bindings cannot be seen through the broker's AMQP port.
    """
    config = load_config(os.environ)
    host = _host(config, None)
    inboxes = own_inboxes(host)
    looks = compare(_settings(config, user, password_file, config.broker()), host, inboxes or [])
    note = "" if inboxes is not None else "no daemon runs here, so its agents' inboxes were not looked at"
    if as_json:
        print_json(CheckView(host, looks, note))
    else:
        print_looks(looks, note)
    return FAILED if any(look.state in ("missing", "differs") for look in looks) else 0


@broker.command(
    epilog="\b\nExamples:\n  fleettrio broker permissions beta\n  fleettrio broker permissions hub --reporter\n"
    "  fleettrio broker permissions beta --coordinator lead-b --vhost leads\n"
    "  fleettrio broker permissions gamma --coordinator lead-c --reporter"
)
@click.argument("host_id", metavar="HOST")
@click.option("--reporter", is_flag=True, help="It reports dead letters, so it reads them too.")
@click.option("--coordinator", metavar="COORDID", help="In the coordinator's virtual host, for the lead of that name.")
@click.option("--user", metavar="NAME", help="Its login; default: the host's id.")
@click.option("--vhost", default="", help="The virtual host; default: that of this host's broker URI.")
@_JSON
def permissions(
    host_id: str, reporter: bool, coordinator: str | None, user: str | None, vhost: str, as_json: bool
) -> int:
    """The `rabbitmqctl` lines that give HOST's login its rights, and no others.

    The user is made first, by `rabbitmqctl add_user NAME`, which asks for the password.
    """
    if not is_name(host_id):
        raise click.UsageError(f"{host_id!r} is not a host id ({NAME_RULE})")
    if coordinator is not None and not is_name(coordinator):
        raise click.UsageError(f"--coordinator takes a coordId ({NAME_RULE})")
    config, login = load_config(os.environ), user or host_id
    rights = permissions_of(host_id, is_reporter=reporter)
    if coordinator:
        rights = coordinator_permissions_of(host_id, coordinator, is_reporter=reporter)
    place = _vhost_of(config.coordinator if coordinator else config.broker_section, vhost)
    lines = rabbitmqctl_lines(place, login, rights)
    view = RightsView(host_id, login, place, rights.configure, rights.write, rights.read, rights.topic_write, lines)
    return _print_lines(view, lines, as_json=as_json)


# --- the plan


def _host(config: Config, asked: str | None) -> HostId:
    if asked is not None and not is_name(asked):
        raise click.UsageError(f"{asked!r} is not a host id ({NAME_RULE})")
    key = read_host_key(config.paths)
    return HostId(asked or (key.host if key else config.host_id))


def _print_lines(view: msgspec.Struct, lines: list[str], *, as_json: bool) -> int:
    """Lines for a shell, whole: a wrapped one could not be pasted."""
    if as_json:
        print_json(view)
    else:
        print("\n".join(lines))
    return 0


# --- the broker


def _vhost_of(section: BrokerSection, asked: str) -> str:
    if asked:
        return asked
    if not section.uris:
        raise click.UsageError("this host has no such broker in its configuration: give --vhost")
    return unquote(urlsplit(section.uris[0]).path[1:]) or "/"


def _settings(
    config: Config, user: str | None, password_file: str | None, settings: BrokerSettings | None
) -> BrokerSettings:
    """How this host reaches that broker, as `user` when there is one. Raises `ConfigError` without a broker."""
    if settings is None:
        hint = f"edit [broker] in {config.paths.config_file}"
        raise ConfigError(["this host has no broker in its configuration"], hint=hint)
    if user is None:
        if password_file:
            raise click.UsageError("--password-file goes with --user")
        return settings
    if password_file:
        return msgspec.structs.replace(settings, user=user, password_file=os.path.abspath(password_file))
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is here to ask for the password: give --password-file")
    password = click.prompt(f"password of {user}", hide_input=True, err=True)
    uris = tuple(_with_login(uri, user, password) for uri in settings.uris)
    return msgspec.structs.replace(settings, uris=uris, user="", password_file="")


def _with_login(uri: str, user: str, password: str) -> str:
    parts = urlsplit(uri)
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}").geturl()
