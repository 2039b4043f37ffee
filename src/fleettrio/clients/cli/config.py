"""`fleettrio config`: what is configured, whether it is right, and where it is."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import unquote, urlsplit

import click
import msgspec

from fleettrio.clients.cli.group import Group
from fleettrio.config import Config, Paths, load_config, resolve_paths
from fleettrio.errors import ConfigError
from fleettrio.keyfiles import read_host_key
from fleettrio.private_files import write_private
from fleettrio.profiles import Profile

__all__ = ("add_broker", "border_problems", "config")

_SECTIONS = ("host", "broker", "coordinator", "limits", "timers", "notify", "log")


class SectionView(msgspec.Struct):
    """The configuration in force, as `config show --json` prints it, without a URI's login and without a URL's path."""

    file: str
    file_exists: bool
    standalone: bool
    host: dict[str, Any]
    broker: dict[str, Any]
    coordinator: dict[str, Any]
    limits: dict[str, Any]
    timers: dict[str, Any]
    notify: dict[str, Any]
    log: dict[str, Any]
    profiles: list[dict[str, Any]] = []
    """Without the values of their variables."""


class PathsView(msgspec.Struct):
    """Where this home's files are, as `config path --json` prints it."""

    config: str
    state: str
    run: str
    socket: str
    store: str
    keys: str
    fleet_file: str
    log: str


@click.group(cls=Group, epilog="\b\nExample:\n  fleettrio config check")
def config() -> None:
    """What is configured, whether it is right, and where it is."""


@config.command(epilog="\b\nExample:\n  fleettrio config show --json")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(as_json: bool) -> None:
    """Print the configuration in force: defaults, file and environment together."""
    view = _view(load_config(os.environ))
    if as_json:
        click.echo(msgspec.json.encode(view))
        return
    note = "" if view.file_exists else "  (does not exist: everything below is a default or from the environment)"
    click.echo(f"# {view.file}{note}")
    for section in _SECTIONS:
        if section == "coordinator" and not view.coordinator["uris"]:
            continue
        click.echo(f"\n[{section}]")
        for key, value in getattr(view, section).items():
            click.echo(f"{key} = {_toml(value)}")
    for profile in view.profiles:
        click.echo("\n[[profile]]")
        for key, value in profile.items():
            click.echo(f"{key} = {_toml(value)}" if key != "variables" else f"# env: {' '.join(value)}")
    if view.standalone:
        click.echo("\n# No broker: standalone. Agents on this host reach each other; no TCP socket is opened.")


@config.command(epilog="\b\nExample:\n  fleettrio config check && fleettrio up")
def check() -> None:
    """Read the configuration and name every problem in it; exit 3 when there is one."""
    checked = load_config(os.environ)
    problems = border_problems(checked)
    if problems:
        raise ConfigError(problems, hint=f"edit [broker] in {checked.paths.config_file}")
    where = checked.paths.config_file
    click.echo(f"ok: {where}" if where.exists() else f"ok: no {where}, so the defaults apply")


@config.command(epilog="\b\nExample:\n  cd $(fleettrio config path state)")
@click.argument("which", metavar="[WHICH]", required=False, type=click.Choice(PathsView.__struct_fields__))
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def path(which: str | None, as_json: bool) -> None:
    """Print where the files of this home are, all of them or WHICH one.

    WHICH is config, state, run, socket, store, keys, fleet_file or log.
    """
    paths = resolve_paths(os.environ)
    view = PathsView(
        config=str(paths.config_file),
        state=str(paths.state_dir),
        run=str(paths.run_dir),
        socket=str(paths.socket),
        store=str(paths.store),
        keys=str(paths.keys_dir),
        fleet_file=str(paths.fleet_file),
        log=str(paths.log_file),
    )
    if which is not None:
        click.echo(getattr(view, which))
    elif as_json:
        click.echo(msgspec.json.encode(view))
    else:
        for name in PathsView.__struct_fields__:
            click.echo(f"{name:11}{getattr(view, name)}")


def border_problems(config_: Config) -> list[str]:
    """What the daemon would refuse when it connects: plaintext to another machine, options in a URI, a bad CA file."""
    # Imported here: the border's types load Trio, which no other command of this file needs.
    from fleettrio.broker.login import tls_context, uri_problems

    problems = []
    for settings, section in ((config_.broker(), "broker"), (config_.coordinator_broker(), "coordinator")):
        if settings is None:
            continue
        problems += [problem.replace("broker.", f"{section}.", 1) for problem in uri_problems(settings)]
        try:
            tls_context(settings.ca_file)
        except ConfigError as error:
            problems += [problem.replace("broker.", f"{section}.", 1) for problem in error.problems]
    return problems


def add_broker(paths: Paths, uri: str) -> None:
    """Write a `[broker]` section for `uri`; a login in it moves into a private file beside the keys.

    Raises `ConfigError`, and changes nothing, when there is such a section already or the URI is no good.
    """
    before = load_config(os.environ)
    if not before.is_standalone:
        raise ConfigError(
            ["there is a broker in the configuration already"], hint=f"edit [broker] in {paths.config_file}"
        )
    try:
        parts = urlsplit(uri)
        place = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    except ValueError:
        raise ConfigError(["--broker: is not a URI"], hint="as in amqps://user@broker.example:5671/fleet") from None
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
        raise ConfigError(["--broker: must be amqps://HOST:PORT/VHOST"])
    if ":" in (parts.hostname or ""):
        place = f"[{parts.hostname}]" + (f":{parts.port}" if parts.port else "")
    bare = parts._replace(netloc=place).geturl()
    section = msgspec.structs.replace(before.broker_section, uris=(bare,))
    problems = border_problems(msgspec.structs.replace(before, broker_section=section))
    if problems:
        raise ConfigError([problem.replace("broker.uris[0]", "--broker") for problem in problems])
    lines = ["[broker]", f"uris = [{_toml(bare)}]"]
    if parts.username:
        lines.append(f"user = {_toml(unquote(parts.username))}")
    if parts.password:
        secret = paths.keys_dir / "broker.password"
        write_private(secret, unquote(parts.password).encode() + b"\n", replace=True)
        lines.append(f"password_file = {_toml(str(secret))}")
    text = paths.config_file.read_text(encoding="utf-8") if paths.config_file.exists() else ""
    text = f"{text.rstrip()}\n\n" if text.strip() else ""
    write_private(paths.config_file, (text + "\n".join(lines) + "\n").encode(), replace=True)


def _view(config_: Config) -> SectionView:
    broker, coordinator = (msgspec.to_builtins(section) for section in (config_.broker_section, config_.coordinator))
    for section in (broker, coordinator):
        section["uris"] = [_without_login(uri) for uri in section["uris"]]
    host = msgspec.to_builtins(config_.host)
    key = read_host_key(config_.paths)
    host["id"] = config_.host_id if key is None else key.host
    notify = msgspec.to_builtins(config_.notify)
    notify["url"] = _without_path(notify["url"])
    return SectionView(
        file=str(config_.paths.config_file),
        file_exists=config_.paths.config_file.exists(),
        standalone=config_.is_standalone,
        host=host,
        broker=broker,
        coordinator=coordinator,
        limits=msgspec.to_builtins(config_.limits),
        timers=msgspec.to_builtins(config_.timers),
        notify=notify,
        log=msgspec.to_builtins(config_.log),
        profiles=[_without_values(profile) for profile in config_.profiles],
    )


def _without_values(profile: Profile) -> dict[str, Any]:
    """A variable of an agent may well be a secret: its name is shown."""
    view: dict[str, Any] = msgspec.to_builtins(profile)
    view["variables"] = sorted(view.pop("env"))
    return view


def _without_login(uri: str) -> str:
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _without_path(url: str) -> str:
    """Of the address that news is posted to: its path is often the secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…" if url else ""


def _toml(value: object) -> str:
    """A value as TOML writes it; for these types that is how JSON writes it."""
    return msgspec.json.encode(value).decode()
