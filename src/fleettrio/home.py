"""Where the files of one home are: below `FLEETTRIO_HOME`, else in the platform's usual folders."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec
import platformdirs

from fleettrio.errors import ConfigError

__all__ = ("SOCKET_PATH_LIMIT", "Paths", "make_run_dir", "resolve_paths")

SOCKET_PATH_LIMIT = 100
"""Bytes. macOS takes 104 with the closing zero, Linux 108."""


class Paths(msgspec.Struct, frozen=True):
    """Every file of one home. A home is one daemon's: its configuration, its state and its socket."""

    config_dir: Path
    state_dir: Path
    run_dir: Path

    @property
    def config_file(self) -> Path:
        return self.config_dir / "fleettrio.toml"

    @property
    def harness_dir(self) -> Path:
        """Where a person keeps harness files; one there goes before a shipped one of its name."""
        return self.config_dir / "harness"

    @property
    def socket(self) -> Path:
        return self.run_dir / "fleettrio.sock"

    @property
    def lock(self) -> Path:
        return self.state_dir / "daemon.lock"

    @property
    def store(self) -> Path:
        return self.state_dir / "store.db"

    @property
    def log_file(self) -> Path:
        return self.state_dir / "daemon.log"

    @property
    def keys_dir(self) -> Path:
        return self.state_dir / "keys"

    @property
    def key_file(self) -> Path:
        return self.keys_dir / "host.json"

    @property
    def owner_key_file(self) -> Path:
        return self.keys_dir / "owner.json"

    @property
    def token_file(self) -> Path:
        """The operator's token: whoever can read it speaks as this host's person."""
        return self.keys_dir / "operator.token"

    @property
    def owner_pin_file(self) -> Path:
        return self.keys_dir / "owner.pin"

    @property
    def fleet_file(self) -> Path:
        return self.state_dir / "fleet.cbor"

    @property
    def of_coordinator(self) -> Paths:
        """The same home, with the fleet file and the pinned owner of the coordinator."""
        return _CoordinatorPaths(self.config_dir, self.state_dir, self.run_dir)


class _CoordinatorPaths(Paths, frozen=True):
    @property
    def owner_pin_file(self) -> Path:
        return self.keys_dir / "coordinator-owner.pin"

    @property
    def fleet_file(self) -> Path:
        return self.state_dir / "coordinator-fleet.cbor"


def resolve_paths(env: Mapping[str, str]) -> Paths:
    """Where this home's files are: below `FLEETTRIO_HOME`, else in the platform's usual folders.

    The socket is never in the platform's runtime folder: that is there in one session of a user and missing in another
    (cron, ssh, a container), and both have to find the same daemon.
    Raises `ConfigError` for a relative `FLEETTRIO_HOME`, and when the socket's path is longer than an operating system
    takes.
    """
    home = env.get("FLEETTRIO_HOME", "")
    if home:
        root = Path(home).expanduser()
        if not root.is_absolute():
            raise ConfigError(
                [f"FLEETTRIO_HOME: {home!r} is a relative path, so it would be another home in each folder"],
                hint=f"export FLEETTRIO_HOME={shlex.quote(str(Path.cwd() / root))}",
            )
        paths = Paths(config_dir=root, state_dir=root / "state", run_dir=root / "run")
    else:
        dirs = platformdirs.PlatformDirs("fleettrio", appauthor=False)
        state = dirs.user_state_path
        paths = Paths(config_dir=dirs.user_config_path, state_dir=state, run_dir=state / "run")
    length = len(os.fsencode(paths.socket))
    if length > SOCKET_PATH_LIMIT:
        raise ConfigError(
            [f"the path of the local socket is {length} bytes long, at most {SOCKET_PATH_LIMIT} work: {paths.socket}"],
            hint="set FLEETTRIO_HOME to a folder with a shorter path",
        )
    return paths


def make_run_dir(paths: Paths) -> None:
    """Make the socket's folder (0700) when it is missing. Raises `ConfigError` when what is there is not ours alone."""
    folder = paths.run_dir
    problem = ""
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        problem = f"the folder of the local socket, {folder}, cannot be made: {error.strerror}"
    else:
        if stat.S_ISLNK(found.st_mode):
            problem = f"the folder of the local socket, {folder}, is a symlink"
        elif found.st_uid != os.geteuid():
            problem = f"the folder of the local socket, {folder}, belongs to another user"
    if problem:
        raise ConfigError([problem], hint="move it away, or set FLEETTRIO_HOME to a folder of your own")
