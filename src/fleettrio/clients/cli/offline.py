"""What `doctor` can see without a daemon: the files, the programs, the broker's port."""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from fleettrio.api.schema import Check
from fleettrio.clients.cli.config import border_problems
from fleettrio.clients.cli.harnesschecks import harness_checks
from fleettrio.config import Config, Paths, load_config, resolve_paths
from fleettrio.errors import ConfigError, StoreError
from fleettrio.private_files import private_problem
from fleettrio.store.holdings import look_at_store
from fleettrio.store.lock import lock_path

__all__ = ("offline_checks",)

_CONNECT_S = 2.0
_TMUX_SINCE = (3, 3)
"""Older ones were not tried; 3.3 is what the facts about panes were found with."""
_AMQP_HELLO = b"AMQP\x00\x00\x09\x01"


def offline_checks(env: Mapping[str, str]) -> list[Check]:
    """Every check that needs no daemon, in the order of reading."""
    checks = [_python(), _extension(), _tmux()]
    try:
        paths = resolve_paths(env)
        config = load_config(env)
    except ConfigError as problem:
        checks += [Check("config", ok=False, detail=line, fix=problem.hint) for line in problem.problems]
        return checks
    where = str(paths.config_file) if paths.config_file.exists() else "no file, all defaults"
    refused = border_problems(config)
    fix = f"edit [broker] in {paths.config_file}"
    checks += [Check("config", ok=False, detail=line, fix=fix) for line in refused] or [
        Check("config", ok=True, detail=where)
    ]
    checks += _secrets(config, paths)
    checks += harness_checks(env, paths)
    checks += _brokers(config)
    checks.append(_lock(paths))
    checks += _store(paths)
    return checks


def _python() -> Check:
    found = sys.version.split()[0]
    is_good = (3, 11) <= sys.version_info[:2] < (3, 14)
    return Check("python", ok=is_good, detail=found, fix="" if is_good else "install Python 3.11, 3.12 or 3.13")


def _extension() -> Check:
    from fleettrio import _accel

    if _accel.IMPLEMENTATION == "compiled":
        return Check("extension", ok=True, detail="compiled")
    why = _accel.PROBLEM or "not built"
    fix = "install a C compiler and the package again (messages work without it, slower)"
    return Check("extension", ok=False, detail=f"pure Python in use: {why}", fix=fix)


def _tmux() -> Check:
    program = shutil.which("tmux")
    if program is None:
        fix = "apt-get install tmux (or: brew install tmux)"
        return Check("tmux", ok=False, detail="not installed: no agent in a terminal can be reached", fix=fix)
    try:
        found = subprocess.run([program, "-V"], capture_output=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError) as problem:
        return Check("tmux", ok=False, detail=f"{program} does not run: {problem}", fix="install tmux again")
    version = found.stdout.decode("utf-8", "replace").strip()
    numbers = re.search(r"(\d+)\.(\d+)", version)
    if numbers and (int(numbers[1]), int(numbers[2])) < _TMUX_SINCE:
        fix = "install tmux 3.3 or newer"
        return Check("tmux", ok=False, detail=f"{version} is older than what was tested", fix=fix)
    return Check("tmux", ok=True, detail=version)


def _secrets(config: Config, paths: Paths) -> list[Check]:
    """Keys, tokens and passwords that others could read."""
    files = [("host key", paths.key_file), ("operator token", paths.token_file), ("owner key", paths.owner_key_file)]
    checks = [_private(name, file) for name, file in files if file.exists() or file.is_symlink()]
    if not paths.key_file.exists():
        is_new = config.is_standalone and not paths.store.exists()
        detail = "none yet: the first start makes it" if is_new else "there is none"
        checks.append(Check("host key", ok=is_new, detail=detail, fix="fleettrio init"))
    if config.broker_section.password_file:
        checks.append(_password(pathlib.Path(config.broker_section.password_file)))
    return checks


def _private(name: str, file: pathlib.Path) -> Check:
    problem = private_problem(file)
    if problem is None:
        return Check(name, ok=True, detail="readable by you alone")
    return Check(name, ok=False, detail=problem[0], fix=problem[1])


def _password(file: pathlib.Path) -> Check:
    """The broker's password lies where its owner chose, so only the file's own mode is judged."""
    try:
        mode = file.stat().st_mode & 0o777
    except OSError as problem:
        return Check("password", ok=False, detail=f"{file}: {problem.strerror}", fix=f"write the password to {file}")
    if mode & 0o077:
        return Check("password", ok=False, detail=f"{file} has mode {mode:04o}", fix=f"chmod 600 {file}")
    return Check("password", ok=True, detail="readable by you alone")


def _brokers(config: Config) -> list[Check]:
    if config.is_standalone:
        return [Check("broker port", ok=True, detail="standalone: none is needed")]
    return [_broker(uri) for uri in config.broker_section.uris]


def _broker(uri: str) -> Check:
    """Whether something answers at the port; the login is the daemon's to try. Never shows the URI."""
    parts = urlsplit(uri)
    host, is_tls = parts.hostname or "", parts.scheme == "amqps"
    port = parts.port or (5671 if is_tls else 5672)
    name, fix = f"{host}:{port}", "start the broker there, or correct [broker] uris"
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_S) as link:
            if not is_tls:
                link.sendall(_AMQP_HELLO)
                if not link.recv(1):
                    return Check("broker port", ok=False, detail=f"{name} hangs up: no AMQP 0-9-1 there", fix=fix)
    except TimeoutError:
        detail = f"{name} does not answer within {_CONNECT_S:.0f} s"
        return Check("broker port", ok=False, detail=detail, fix="look for a firewall or a frozen broker")
    except OSError as problem:
        return Check("broker port", ok=False, detail=f"{name}: {problem.strerror or problem}", fix=fix)
    return Check("broker port", ok=True, detail=f"{name} answers")


def _store(paths: Paths) -> list[Check]:
    """Nothing where a daemon could open it: one that runs says more of it."""
    try:
        look_at_store(paths.store)
    except StoreError as problem:
        return [Check("store file", ok=False, detail=str(problem), fix=problem.hint)]
    return []


def _lock(paths: Paths) -> Check:
    """A daemon that holds the home without answering on its socket is stuck, or of another namespace."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(_CONNECT_S)
        if probe.connect_ex(str(paths.socket)) == 0:
            return Check("home", ok=True, detail=str(paths.state_dir))
    file = lock_path(paths.store)
    if not file.exists():
        return Check("home", ok=True, detail=str(paths.state_dir))
    with file.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            holder = lock.read(32).decode("ascii", "replace").strip()
            who = f" (process {holder})" if holder.isdigit() else ""
            return Check(
                "home",
                ok=False,
                detail=f"a second daemon{who} holds {file} and does not answer on {paths.socket}",
                fix=f"end it: kill {holder}" if holder.isdigit() else "end that daemon",
            )
    return Check("home", ok=True, detail=str(paths.state_dir))
