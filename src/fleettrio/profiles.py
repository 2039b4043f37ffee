"""`[[profile]]`: what may be started on this host, and how. A requester names a profile, never a command.

A profile whose values are all good is kept as it is; every fault is told with its key, `profile.<name>.<key>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from fleettrio.toml_section import decode_section
from fleettrio.wire.gids import is_name

__all__ = ("PROFILES", "Profile", "read_profiles")

PROFILES = "profile"
"""Name of the list of tables in `fleettrio.toml`."""
_SCREEN_GATES = ("quiet", "pattern", "port")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = "FLEETTRIO_"
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One way to start an agent. Paths are absolute, `~` is the home folder."""

    name: str = ""
    command: tuple[str, ...] = ()
    """Program and arguments; no shell is between."""
    cwd: str = ""
    """Folder for requests that name none; the first of `roots` when empty."""
    roots: tuple[str, ...] = ()
    """A requested folder must lie under one of these; `cwd` alone when empty."""
    env: dict[str, str] = {}
    runtime: Literal["tmux", "process", "herdr"] = "tmux"
    """`tmux`: in a pane. `process`: the command is run for each message, with its text on standard input. `herdr`: in a
    workspace of the herdr that runs here, which knows the command by its name."""
    sandbox: tuple[str, ...] = ()
    """Put in front of `command`: `["bwrap", "--ro-bind", …]`."""
    harness: str = ""
    """What program this is, for reading its screen; empty for one nobody described."""
    ready: Literal["hook", "quiet", "pattern", "port"] = "hook"
    """How it shows that it can take a message: its state is seen, its screen rests, a text is on its screen, it listens
    on a port of this machine."""
    quiet_s: _Seconds = 2.0
    """For `quiet`: how long the screen rests, with something on it."""
    pattern: str = ""
    """For `pattern`: a regular expression over the lines of the screen."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    """For `port`."""
    limit_s: _Seconds = 60.0
    """Not ready by then: ended."""
    groups: tuple[str, ...] = ()
    """Groups that every agent of this profile is in."""
    max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 8
    """How many may be there at once, those that are being started included."""
    reply: Literal["auto", "nag", "manual"] = "auto"
    role: str = "worker"

    @property
    def argv(self) -> tuple[str, ...]:
        return (*self.sandbox, *self.command)


def read_profiles(entries: Sequence[Any], own_harnesses: Path, problems: list[str]) -> tuple[Profile, ...]:
    """The profiles in `entries`, the tables of the file; what is wrong with them goes to `problems`, all of it.

    `own_harnesses` is the folder of the person's own harness files, which need not exist.
    """
    profiles: list[Profile] = []
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict):
            problems.append(f"{PROFILES}: must be a list of tables, each begun by [[{PROFILES}]]")
            continue
        name = entry.get("name")
        is_named = isinstance(name, str) and is_name(name)
        key = f"{PROFILES}.{name}" if is_named else f"{PROFILES}[{place}]"
        if not is_named:
            problems.append(f"{key}.name: give a name of lower-case letters, digits and hyphens, at most 32")
        elif any(profile.name == name for profile in profiles):
            problems.append(f"{key}.name: two profiles have this name")
        count = len(problems)
        profile = decode_section(Profile, key, {k: v for k, v in entry.items() if k != "name" or is_named}, problems)
        if len(problems) == count:
            problems.extend(f"{key}.{problem}" for problem in _faults(profile, own_harnesses))
        profiles.append(_expanded(profile))
    return tuple(profiles)


def _faults(profile: Profile, own_harnesses: Path) -> list[str]:
    """What is wrong with values that are each of the right type."""
    return [
        *_command_faults(profile),
        *_harness_faults(profile, own_harnesses),
        *_folder_faults(profile),
        *_ready_faults(profile),
        *(f"groups: {group!r} is not a name for a group" for group in profile.groups if not is_name(group)),
    ]


def _command_faults(profile: Profile) -> list[str]:
    faults = []
    if profile.runtime == "herdr" and profile.sandbox:
        faults.append('sandbox: herdr starts agents by their kind and takes no program in front; use runtime = "tmux"')
    if not profile.command or not profile.command[0]:
        faults.append('command: missing; give program and arguments as a list, as in ["claude"]')
    if any("\0" in word for word in profile.argv):
        faults.append("command: holds a zero byte")
    for variable, value in profile.env.items():
        if not _VARIABLE.fullmatch(variable) or "\0" in value:
            faults.append(f"env.{variable}: is not the name of a variable, or holds a zero byte")
        elif variable.startswith(_OURS):
            faults.append(f"env.{variable}: variables that begin with {_OURS} are set by fleettrio itself")
    return faults


def _harness_faults(profile: Profile, own: Path) -> list[str]:
    """A harness is a file, shipped in the package or the person's own (`local.harness`)."""
    if not profile.harness:
        return []
    # Imported here: every CLI call reads the configuration, and few have to look at this.
    from importlib import resources

    folders = [resources.files("fleettrio") / "local" / "harness", *([own] if own.is_dir() else [])]
    files = [file.name for folder in folders for file in folder.iterdir()]
    known = sorted({name.removesuffix(".toml") for name in files if name.endswith(".toml")})
    if profile.harness in known:
        return []
    return [f"harness: no harness {profile.harness!r} (there are: {' '.join(known)})"]


def _folder_faults(profile: Profile) -> list[str]:
    if not profile.roots and not profile.cwd:
        return ["roots: name at least one folder in which this profile may start agents"]
    faults = []
    for key, folders in (("roots", profile.roots), ("cwd", (profile.cwd,) if profile.cwd else ())):
        faults += [
            f"{key}: {folder!r} is a relative path, so it would be another folder in each place"
            for folder in folders
            if not Path(folder).expanduser().is_absolute()
        ]
    if not faults and profile.cwd and profile.roots and not _is_under_one(profile.cwd, profile.roots):
        faults.append(f"cwd: {profile.cwd} lies under none of its roots ({' '.join(profile.roots)})")
    return faults


def _is_under_one(cwd: str, roots: Sequence[str]) -> bool:
    return any(Path(cwd).expanduser().is_relative_to(Path(root).expanduser()) for root in roots)


def _ready_faults(profile: Profile) -> list[str]:
    faults = []
    if profile.runtime == "process" and profile.ready in _SCREEN_GATES:
        faults.append(
            f'ready: {profile.ready!r} needs a program that runs on; a process runs once for each message, use "hook"'
        )
    try:
        re.compile(profile.pattern)
    except re.error as error:
        faults.append(f"pattern: is not a regular expression: {error}")
    for gate, value in (("pattern", profile.pattern), ("port", profile.port)):
        if profile.ready == gate and not value:
            faults.append(f'{gate}: missing, though ready = "{gate}"')
        if profile.ready != gate and value:
            faults.append(f'{gate}: has no effect unless ready = "{gate}"')
    if profile.ready == "quiet" and profile.quiet_s >= profile.limit_s:
        faults.append("quiet_s: must be shorter than limit_s, or it is never ready")
    return faults


def _expanded(profile: Profile) -> Profile:
    cwd = str(Path(profile.cwd).expanduser()) if profile.cwd else ""
    roots = tuple(str(Path(root).expanduser()) for root in profile.roots) or ((cwd,) if cwd else ())
    return msgspec.structs.replace(profile, cwd=cwd or (roots[0] if roots else ""), roots=roots)
