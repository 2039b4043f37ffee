"""What the person configured: `fleettrio.toml` and its environment overrides, as frozen types.

Every problem is reported at once, with its key; an unknown key is an error that names the nearest one that exists.
With no file at all everything has a default: the host id comes from the host name and there is no broker.
"""

from __future__ import annotations

import os
import re
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from fleettrio.broker_section import BrokerSection, CoordinatorSection, broker_problems, coordinator_problems
from fleettrio.errors import ConfigError
from fleettrio.home import Paths, resolve_paths
from fleettrio.ids import HostId
from fleettrio.notify_section import NotifySection, notify_problems
from fleettrio.overrides import apply_overrides
from fleettrio.profiles import PROFILES, Profile, read_profiles
from fleettrio.toml_section import decode_section, nearest
from fleettrio.wire.gids import NAME_RULE, RESERVED_NAMES, is_name

if TYPE_CHECKING:
    from fleettrio.broker.port import BrokerSettings

__all__ = (
    "SECTIONS",
    "Config",
    "HostSection",
    "LimitsSection",
    "LogSection",
    "Paths",
    "TimersSection",
    "default_host_id",
    "load_config",
    "resolve_paths",
    "written_settings",
)


_KIB, _MIB = 1024, 1024 * 1024


class HostSection(msgspec.Struct, frozen=True):
    """`[host]`. Not reloaded: a host keeps its id for the life of its key."""

    id: str = ""
    """Empty: made from the host name."""


class LimitsSection(msgspec.Struct, frozen=True):
    """`[limits]`."""

    body_bytes: Annotated[int, msgspec.Meta(ge=1 * _KIB, le=1 * _MIB)] = 256 * _KIB
    """Largest body of one message, sent or taken."""
    inbox_messages: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1_000
    """Messages that may wait for one agent on this host; past it its queue at the broker is left alone."""
    deaths: Annotated[int, msgspec.Meta(ge=0, le=100)] = 3
    """Deaths of the daemon within a minute, for no known cause, after which it starts without a broker; 0: never."""
    inbox_bytes: Annotated[int, msgspec.Meta(ge=64 * _KIB, le=1024 * _MIB)] = 64 * _MIB


class TimersSection(msgspec.Struct, frozen=True):
    """`[timers]`, in seconds."""

    beat_s: Annotated[float, msgspec.Meta(ge=0.2, le=5)] = 5.0
    """Time between two signs of life to the fleet. Others call a host silent after 15 s, so never more than 5."""
    grace_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 5.0
    """What a shutdown leaves to work in hand."""


class LogSection(msgspec.Struct, frozen=True):
    """`[log]`."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"
    """`auto`: console on a terminal, JSON elsewhere."""
    file: str = ""
    """Empty: standard error (a daemon started by `fleettrio up` writes to `daemon.log` in the state folder)."""


_Section = TypeVar("_Section", bound=BrokerSection)
SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "host": HostSection,
    "broker": BrokerSection,
    "coordinator": CoordinatorSection,
    "limits": LimitsSection,
    "timers": TimersSection,
    "notify": NotifySection,
    "log": LogSection,
}
_NOT_YET = frozenset({"metrics", "dashboard", "regions"})
"""Sections that have their names already and do nothing yet: said so, instead of being taken for a typing error."""


class Config(msgspec.Struct, frozen=True):
    """The whole configuration, validated."""

    paths: Paths
    host: HostSection = HostSection()
    broker_section: BrokerSection = BrokerSection()
    coordinator: CoordinatorSection = CoordinatorSection()
    limits: LimitsSection = LimitsSection()
    timers: TimersSection = TimersSection()
    notify: NotifySection = NotifySection()
    log: LogSection = LogSection()
    profiles: tuple[Profile, ...] = ()
    """What may be started here, by name (`[[profile]]`)."""

    @property
    def host_id(self) -> HostId:
        """The configured id, else one made from the host name. A host with a key keeps the id in its key."""
        return HostId(self.host.id) if self.host.id else default_host_id()

    @property
    def is_standalone(self) -> bool:
        return not self.broker_section.uris

    def broker(self) -> BrokerSettings | None:
        """How to reach the broker; None when standalone."""
        return self.broker_section.settings()

    def coordinator_broker(self) -> BrokerSettings | None:
        """How to reach the coordinator's broker; None when there is none."""
        return self.coordinator.settings()


def default_host_id(name: str | None = None) -> HostId:
    """A valid host id made from `name` (the machine's host name when None)."""
    first = (socket.gethostname() if name is None else name).split(".")[0].lower()
    made = re.sub(r"[^a-z0-9]+", "-", first).strip("-")[:32].rstrip("-")
    if not made or made in RESERVED_NAMES:
        made = f"host-{made}".rstrip("-")
    return HostId(made)


def load_config(env: Mapping[str, str] | None = None) -> Config:
    """Read `fleettrio.toml` (if there is one) and the overrides in `env` (the process environment when None).

    Raises `ConfigError` with one problem a line, each with its key.
    """
    env = os.environ if env is None else env
    paths = resolve_paths(env)
    problems: list[str] = []
    tables, entries = _read_tables(paths.config_file, problems)
    apply_overrides(tables, env, SECTIONS, problems)
    host = decode_section(HostSection, "host", tables.get("host", {}), problems)
    broker = decode_section(BrokerSection, "broker", tables.get("broker", {}), problems)
    coordinator = decode_section(CoordinatorSection, "coordinator", tables.get("coordinator", {}), problems)
    limits = decode_section(LimitsSection, "limits", tables.get("limits", {}), problems)
    timers = decode_section(TimersSection, "timers", tables.get("timers", {}), problems)
    notify = decode_section(NotifySection, "notify", tables.get("notify", {}), problems)
    log = decode_section(LogSection, "log", tables.get("log", {}), problems)
    if host.id and not is_name(host.id):
        problems.append(f"host.id: {host.id!r} is not a host id ({NAME_RULE})")
    problems.extend(broker_problems(broker, "broker", given="broker" in tables))
    problems.extend(coordinator_problems(coordinator, given="coordinator" in tables))
    problems.extend(notify_problems(notify))
    profiles = read_profiles(entries, paths.harness_dir, problems)
    if problems:
        raise ConfigError(
            problems, hint=f"edit {paths.config_file} or the variable named, then run `fleettrio config check`"
        )
    broker, coordinator = _with_files(paths, broker), _with_files(paths, coordinator)
    log = msgspec.structs.replace(log, file=_beside(paths, log.file))
    return Config(
        paths=paths,
        host=host,
        broker_section=broker,
        coordinator=coordinator,
        limits=limits,
        timers=timers,
        notify=notify,
        log=log,
        profiles=profiles,
    )


def written_settings(file: Path) -> dict[str, Any] | None:
    """What stands in `fleettrio.toml`, whatever its comments and its order; None when that cannot be read."""
    problems: list[str] = []
    document = _read_document(file, problems)
    return None if problems else document


def _read_document(file: Path, problems: list[str]) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass
    except OSError as error:
        problems.append(f"{file}: cannot be read ({error.strerror})")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"{file}: is not TOML: {error}")
    return {}


def _read_tables(file: Path, problems: list[str]) -> tuple[dict[str, dict[str, Any]], list[Any]]:
    """The sections of the file, those that exist, and its `[[profile]]` entries; the rest becomes problems."""
    document = _read_document(file, problems)
    tables: dict[str, dict[str, Any]] = {}
    profiles: list[Any] = []
    for name, table in document.items():
        if name in _NOT_YET:
            problems.append(f"{name}: this section is not supported yet by this version; take it out")
        elif name == PROFILES:
            profiles = table if isinstance(table, list) else [table]
        elif name not in SECTIONS:
            problems.append(f"{name}: no such section{nearest(name, (*SECTIONS, PROFILES))}")
        elif not isinstance(table, dict):
            problems.append(f"{name}: must be a section, [{name}]")
        else:
            tables[name] = dict(table)
    return tables, profiles


def _with_files(paths: Paths, section: _Section) -> _Section:
    return msgspec.structs.replace(
        section, password_file=_beside(paths, section.password_file), ca_file=_beside(paths, section.ca_file)
    )


def _beside(paths: Paths, file: str) -> str:
    """A file named in the configuration: `~` is the home folder, a relative path starts at the configuration's."""
    if not file:
        return ""
    return str(paths.config_dir / Path(file).expanduser())
