"""Where the files of one home are: below `FLEETTRIO_HOME`, else in the platform's usual folders."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from fleettrio.errors import ConfigError

__all__ = ("SOCKET_PATH_LIMIT", "Paths", "resolve_paths")

SOCKET_PATH_LIMIT = 100
"""Bytes. macOS takes 104 with the closing zero, Linux 108."""


@dataclasses.dataclass(frozen=True, slots=True)
class Paths:
    """Every file of one home. A home is one daemon's: its configuration, its state and its socket."""

    config_dir: Path
    state_dir: Path
    run_dir: Path

    @property
    def config_file(self) -> Path:
        return self.config_dir / "fleettrio.toml"

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


def resolve_paths(env: Mapping[str, str]) -> Paths:
    """Where this home's files are: below `FLEETTRIO_HOME`, else in the platform's usual folders.

    Raises `ConfigError` when the socket's path is longer than an operating system takes.
    """
    home = env.get("FLEETTRIO_HOME", "")
    if home:
        root = Path(home).expanduser()
        if not root.is_absolute():
            root = Path.cwd() / root
        paths = Paths(config_dir=root, state_dir=root / "state", run_dir=root / "run")
    else:
        dirs = platformdirs.PlatformDirs("fleettrio", appauthor=False)
        paths = Paths(config_dir=dirs.user_config_path, state_dir=dirs.user_state_path, run_dir=dirs.user_runtime_path)
    length = len(os.fsencode(paths.socket))
    if length > SOCKET_PATH_LIMIT:
        raise ConfigError(
            [f"the path of the local socket is {length} bytes long, at most {SOCKET_PATH_LIMIT} work: {paths.socket}"],
            hint="set FLEETTRIO_HOME to a folder with a shorter path",
        )
    return paths
