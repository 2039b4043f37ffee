"""What the person configured: `fleettrio.toml` and its environment overrides, as frozen types.

Every problem is reported at once, with its key; an unknown key is an error that names the nearest one that exists.
With no file at all everything has a default: the host id comes from the host name and there is no broker.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import socket
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from fleettrio.errors import ConfigError
from fleettrio.home import Paths, resolve_paths
from fleettrio.ids import HostId
from fleettrio.wire.gids import RESERVED_NAMES, is_name

if TYPE_CHECKING:
    from fleettrio.broker.port import BrokerSettings

_Section = TypeVar("_Section", bound=msgspec.Struct)

__all__ = (
    "NAME_RULE",
    "BrokerSection",
    "Config",
    "HostSection",
    "LimitsSection",
    "LogSection",
    "Paths",
    "TimersSection",
    "default_host_id",
    "environment_keys",
    "load_config",
    "resolve_paths",
)


_KIB, _MIB = 1024, 1024 * 1024


NAME_RULE = "lower-case letters, digits and hyphens, at most 32, not one of: " + " ".join(sorted(RESERVED_NAMES))


class HostSection(msgspec.Struct, frozen=True):
    """`[host]`. Not reloaded: a host keeps its id for the life of its key."""

    id: str = ""
    """Empty: made from the host name."""


class BrokerSection(msgspec.Struct, frozen=True):
    """`[broker]`. Without this section (or with no `uris`) the daemon is standalone and opens no TCP socket."""

    uris: tuple[str, ...] = ()
    """Tried in turn, from the last good one: `amqps://host:5671/vhost`."""
    user: str = ""
    password_file: str = ""
    """Read at each connect, so that a login can change without a restart. Mode 0600."""
    ca_file: str = ""
    allow_plaintext: bool = False
    """Allow `amqp://` to another machine: everybody on the way reads along."""
    heartbeat_s: Annotated[int, msgspec.Meta(ge=2, le=60)] = 10


class LimitsSection(msgspec.Struct, frozen=True):
    """`[limits]`."""

    body_bytes: Annotated[int, msgspec.Meta(ge=1 * _KIB, le=1 * _MIB)] = 256 * _KIB
    """Largest body of one message, sent or taken."""
    inbox_messages: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1_000
    """Messages that may wait for one agent on this host; past it its queue at the broker is left alone."""
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


_SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "host": HostSection,
    "broker": BrokerSection,
    "limits": LimitsSection,
    "timers": TimersSection,
    "log": LogSection,
}
_NOT_YET = frozenset({"profile", "coordinator", "notify", "metrics", "dashboard", "regions"})
"""Sections that have their names already and do nothing yet: said so, instead of being taken for a typing error."""


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration, validated."""

    paths: Paths
    host: HostSection = HostSection()
    broker_section: BrokerSection = BrokerSection()
    limits: LimitsSection = LimitsSection()
    timers: TimersSection = TimersSection()
    log: LogSection = LogSection()

    @property
    def host_id(self) -> HostId:
        """The configured id, else one made from the host name. A host with a key keeps the id in its key."""
        return HostId(self.host.id) if self.host.id else default_host_id()

    @property
    def is_standalone(self) -> bool:
        return not self.broker_section.uris

    def broker(self) -> BrokerSettings | None:
        """How to reach the broker; None when standalone."""
        # Imported here: every CLI call reads the configuration, and the port would make each of them load Trio.
        from fleettrio.broker.port import BrokerSettings

        section = self.broker_section
        if self.is_standalone:
            return None
        return BrokerSettings(
            uris=section.uris,
            user=section.user,
            password_file=section.password_file,
            ca_file=section.ca_file,
            allow_plaintext=section.allow_plaintext,
            heartbeat_s=section.heartbeat_s,
        )


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
    tables = _read_tables(paths.config_file, problems)
    _apply_environment(tables, env, problems)
    host = _decode_section(HostSection, "host", tables, problems)
    broker = _decode_section(BrokerSection, "broker", tables, problems)
    limits = _decode_section(LimitsSection, "limits", tables, problems)
    timers = _decode_section(TimersSection, "timers", tables, problems)
    log = _decode_section(LogSection, "log", tables, problems)
    if host.id and not is_name(host.id):
        problems.append(f"host.id: {host.id!r} is no host id ({NAME_RULE})")
    problems.extend(_broker_problems(broker, given="broker" in tables))
    if problems:
        raise ConfigError(
            problems, hint=f"edit {paths.config_file} or the variable named, then run `fleettrio config check`"
        )
    broker = msgspec.structs.replace(
        broker,
        password_file=_beside(paths, broker.password_file),
        ca_file=_beside(paths, broker.ca_file),
    )
    log = msgspec.structs.replace(log, file=_beside(paths, log.file))
    return Config(paths=paths, host=host, broker_section=broker, limits=limits, timers=timers, log=log)


def _read_tables(file: Path, problems: list[str]) -> dict[str, dict[str, Any]]:
    """The sections of the file, those that exist; everything else in it becomes a problem."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        problems.append(f"{file}: cannot be read ({error.strerror})")
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"{file}: is not TOML: {error}")
        return {}
    tables: dict[str, dict[str, Any]] = {}
    for name, table in document.items():
        if name in _NOT_YET:
            problems.append(f"{name}: this section is not supported yet by this version; take it out")
        elif name not in _SECTIONS:
            problems.append(f"{name}: no such section{_nearest(name, _SECTIONS)}")
        elif not isinstance(table, dict):
            problems.append(f"{name}: must be a section, [{name}]")
        else:
            tables[name] = dict(table)
    return tables


def environment_keys() -> dict[str, tuple[str, str]]:
    """Every override: `FLEETTRIO_<SECTION>_<KEY>` to its section and key."""
    return {
        f"FLEETTRIO_{section}_{field.name}".upper(): (section, field.name)
        for section, kind in _SECTIONS.items()
        for field in msgspec.structs.fields(kind)
    }


def _apply_environment(tables: dict[str, dict[str, Any]], env: Mapping[str, str], problems: list[str]) -> None:
    keys = environment_keys()
    prefixes = tuple(f"FLEETTRIO_{section}_".upper() for section in _SECTIONS)
    for variable in sorted(env):
        if variable in keys:
            section, key = keys[variable]
            try:
                value = _from_text(section, key, env[variable])
            except ValueError as error:
                problems.append(f"{variable}: {error}")
            else:
                tables.setdefault(section, {})[key] = value
        elif variable.startswith(prefixes):
            problems.append(f"{variable}: no such setting{_nearest(variable, keys)}")
        elif near := _misspelt(variable, keys):
            problems.append(f'{variable}: no such setting; did you mean "{near}"?')


def _misspelt(variable: str, keys: Mapping[str, object]) -> str:
    """The setting that a variable with an unknown section was meant to be; empty when it is none of ours."""
    prefix, _, word = variable.partition("_")
    if prefix != "FLEETTRIO":
        return ""
    # Without the prefix, which would make all of them alike.
    near = difflib.get_close_matches(word, [key.partition("_")[2] for key in keys], n=1, cutoff=0.8)
    return f"FLEETTRIO_{near[0]}" if near else ""


def _from_text(section: str, key: str, text: str) -> Any:
    """A TOML value out of an environment variable; lists are separated by commas."""
    default = getattr(_SECTIONS[section](), key)
    for kind, read in _READERS:
        if isinstance(default, kind):
            return read(text)
    return text


def _read_bool(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise ValueError(f"{text!r} is neither true nor false")
    return words[text.lower()]


def _read_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None


def _read_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


_READERS: tuple[tuple[type, Callable[[str], Any]], ...] = (
    (bool, _read_bool),  # before int, which a bool is too
    (int, _read_int),
    (float, _read_float),
    (tuple, _read_list),
)


def _decode_section(
    kind: type[_Section], name: str, tables: Mapping[str, Mapping[str, Any]], problems: list[str]
) -> _Section:
    """The section with every good value in it; each bad one becomes a problem of its own."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    good: dict[str, Any] = {}
    for key, value in tables.get(name, {}).items():
        if key not in fields:
            problems.append(f"{name}.{key}: no such key{_nearest(key, fields)}")
            continue
        try:
            good[key] = msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            problems.append(f"{name}.{key}: {error}, not {value!r}" if _showable(value) else f"{name}.{key}: {error}")
    return kind(**good)


def _showable(value: Any) -> bool:
    """Numbers and switches are worth repeating; a text may be a secret that strayed into the wrong key."""
    return isinstance(value, int | float | bool)


def _broker_problems(broker: BrokerSection, *, given: bool) -> list[str]:
    """What is wrong with `[broker]`. A URI is named by its place in the list, never shown: it may hold a password."""
    problems = []
    if given and not broker.uris:
        problems.append("broker.uris: give at least one, or take the [broker] section out to be standalone")
    for place, uri in enumerate(broker.uris):
        key = f"broker.uris[{place}]"
        try:
            parts = urlsplit(uri)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            problems.append(f"{key}: is no URI ({'bad port' if 'ort' in str(error) else 'bad host'})")
            continue
        if parts.scheme not in ("amqp", "amqps"):
            problems.append(f"{key}: must begin with amqps:// (or amqp://)")
        elif not host:
            problems.append(f"{key}: names no host, as in amqps://broker.example:5671/fleet")
    if broker.password_file and not broker.user:
        problems.append("broker.user: missing, though there is a broker.password_file")
    return problems


def _nearest(word: str, known: Mapping[str, object]) -> str:
    """`; did you mean "x"?`, or the whole list when nothing is near."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else f" (there are: {' '.join(known)})"


def _beside(paths: Paths, file: str) -> str:
    """A file named in the configuration: `~` is the home folder, a relative path starts at the configuration's."""
    if not file:
        return ""
    return str(paths.config_dir / Path(file).expanduser())
