"""Starting an agent by a profile, waiting until it is ready, finding it again, ending it.

Rules:
1. Everything that is started can be found by its spawn id alone, from the moment it runs: a crash of ours between the
   start and the record of it leaves nothing that nobody knows.
2. It is started so that neither a restart of the daemon nor the end of the daemon's process group touches it.
3. What an agent gets told by its environment (its token) is never on a command line.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec
import trio

from fleettrio.core.entity import Entity
from fleettrio.home import Paths
from fleettrio.ids import Gid
from fleettrio.launch.errors import LaunchError
from fleettrio.launch.folder import find_folder
from fleettrio.launch.herdr import HerdrRuntime
from fleettrio.launch.ready import listens, until_ready
from fleettrio.launch.worktree import make_worktree, remove_worktree
from fleettrio.panes.scope import Process, end_process, process_of, scope_prefix
from fleettrio.panes.server import OwnServer, Pane
from fleettrio.panes.tmux import TmuxError
from fleettrio.profiles import Profile

__all__ = ("Launched", "Launcher", "Order", "attach_command", "server_name")

NOT_INHERITED = frozenset(
    {
        *("FLEETTRIO_TOKEN", "FLEETTRIO_FAILPOINT", "TMUX", "TMUX_PANE", "INVOCATION_ID", "NOTIFY_SOCKET"),
        *("HERDR_ENV", "HERDR_PANE_ID", "HERDR_TAB_ID", "HERDR_WORKSPACE_ID"),
    }
)
"""What says who or where the daemon is, and nobody else."""
LAST_LINES = 12
"""Lines of its screen that say why it did not get ready."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One agent to be started."""

    spawn_id: Gid
    name: str
    profile: Profile
    cwd: str = ""
    """Empty: the profile's own."""
    worktree: bool = False
    token: str = ""


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that was started: what its entity and a later end need to know."""

    transport: str
    target: str
    cwd: str
    worktree: str = ""
    """Folder of the git worktree that was made for it; empty for none."""
    tty: str = ""
    pid: int = 0
    started: int = 0
    """Start time of `pid` (field 22 of its stat); 0 for an agent that runs only for its messages."""


def server_name(paths: Paths) -> str:
    """Name of the tmux server in which this home's agents live: `tmux -L NAME attach`."""
    return f"fleettrio-{hashlib.blake2b(os.fsencode(paths.state_dir), digest_size=4).hexdigest()}"


def attach_command(paths: Paths, entity: Entity) -> str:
    """How a person at this host looks at an agent in a pane of this home's server; empty when it is in none."""
    server, _, pane = entity.target.rpartition(":")
    is_ours = entity.transport == "tmux" and server.rpartition("/")[2] == server_name(paths)
    return f"tmux -L {server_name(paths)} attach -t {pane}" if is_ours and entity.status != "away" else ""


def session_name(spawn_id: Gid, name: str) -> str:
    return f"{name}{_ending(spawn_id)}"


def _ending(spawn_id: Gid) -> str:
    return f"-{spawn_id[:8]}"


class Launcher:
    """Starts agents for the home at `paths`; `env` is the daemon's environment."""

    def __init__(self, paths: Paths, env: Mapping[str, str]) -> None:
        self._worktrees = paths.state_dir / "worktrees"
        self._env = dict(env)
        self.server = server_name(paths)
        self._tmux = OwnServer(self.server, env, scope_prefix(env))
        self._herdr = HerdrRuntime(env)

    async def launch(self, order: Order) -> Launched:
        """Start it; returns at once, ready or not. Raises `LaunchError`, and then nothing is left.

        Cancelled, a part may be left: `end` with its spawn id takes it away.
        """
        profile = order.profile
        folder = await trio.to_thread.run_sync(find_folder, order.cwd or profile.cwd, profile.roots)
        env = self._environment(order)
        if profile.runtime != "herdr":  # that one finds its programs by itself
            _check_program(profile, folder, env)
        if profile.ready == "port" and await listens(profile.port):
            raise LaunchError("command", f"something else listens on port {profile.port} already")
        name = session_name(order.spawn_id, order.name)
        made = await make_worktree(folder, self._worktrees, name, self._env) if order.worktree else None
        cwd, worktree = (str(made.cwd), str(made.path)) if made else (str(folder), "")
        if profile.runtime == "process":
            return Launched(transport="process", target=_command_line(profile), cwd=cwd, worktree=worktree)
        own = {"FLEETTRIO_TOKEN", "FLEETTRIO_NAME", *profile.env}
        if profile.runtime == "herdr":
            told = {key: value for key, value in env.items() if key in own or key == "FLEETTRIO_HOME"}
            return await self._in_herdr(order, name, told, cwd, worktree)
        try:
            pane = await self._tmux.start(name, order.spawn_id, profile.argv, cwd, env, sorted(own & set(env)))
        except TmuxError as error:
            await self.end(order.spawn_id, worktree=worktree)
            raise LaunchError("runtime", str(error)) from error
        process = process_of(pane.pid)
        if process is None:
            # It ended at once; its last words stay on the screen for whoever waits for it to get ready.
            process = Process(pane.pid, 0)
        return self._in_pane(pane, process, cwd, worktree)

    async def until_ready(self, profile: Profile, launched: Launched, has_state: Callable[[], Awaitable[bool]]) -> None:
        """Return once it can take a message. Raises `LaunchError` when it ended or the limit passed.

        `has_state` asks its transport whether its state is seen. Cancelled, it runs on.
        """
        if launched.transport == "herdr":
            terminal = launched.target.rpartition("#")[2]
            await until_ready(profile, lambda: self._herdr.look(terminal), has_state)
            return
        if launched.transport != "tmux":
            return
        pane = launched.target.rpartition(":")[2]
        try:
            await until_ready(profile, lambda: self._tmux.look(pane, joined=False), has_state)
        except LaunchError as error:
            error.screen = await self._tmux.last_lines(pane, LAST_LINES)
            raise
        except TmuxError as error:
            raise LaunchError("runtime", str(error)) from error

    async def adopt(self, launched: Launched) -> bool:
        """Whether what was started by an earlier daemon still runs as the very same process."""
        if launched.transport == "process":
            return True
        return launched.started > 0 and Process(launched.pid, launched.started).is_alive

    async def end(self, spawn_id: Gid, *, worktree: str = "") -> str:
        """End what was started under `spawn_id`, recorded or not; returns what is to be said of its worktree.

        Ended already is fine. Cancelled, it may still run: `end` can be called again.
        """
        pane = await self._tmux.find(spawn_id)
        if pane is not None:
            await self.end_pane(pane)
        await self._herdr.end(_ending(spawn_id))
        folder = Path(worktree) if worktree else self._worktree_of(spawn_id)
        return await remove_worktree(folder, self._env) if folder is not None else ""

    async def running(self) -> dict[Gid, Pane]:
        """Everything in panes of this home's server, by spawn id."""
        return {Gid(pane.mark): pane for pane in await self._tmux.panes() if pane.mark}

    def worktrees(self) -> tuple[Path, ...]:
        """Every worktree that was made for an agent, of whoever it was. Blocks shortly."""
        return tuple(sorted(folder for folder in self._worktrees.glob("*-*") if folder.is_dir()))

    async def drop_worktree(self, path: Path) -> str:
        """Take it away when it is clean; what is to be said of it, empty when nothing is left."""
        return await remove_worktree(path, self._env)

    async def end_pane(self, pane: Pane) -> None:
        """End what runs in a pane of this home, and its session."""
        process = process_of(pane.pid) if not pane.dead else None
        await self._tmux.end(pane)
        if process is not None:
            await end_process(process)

    async def _in_herdr(self, order: Order, name: str, env: Mapping[str, str], cwd: str, worktree: str) -> Launched:
        try:
            pane = await self._herdr.start(name, order.profile, cwd, env)
        except LaunchError:
            await self.end(order.spawn_id, worktree=worktree)
            raise
        process = process_of(pane.pid) or Process(pane.pid, 0)
        return Launched(
            transport="herdr",
            target=pane.target,
            cwd=cwd,
            worktree=worktree,
            tty=pane.tty,
            pid=process.pid,
            started=process.started,
        )

    def _in_pane(self, pane: Pane, process: Process, cwd: str, worktree: str) -> Launched:
        return Launched(
            transport="tmux",
            target=f"{self.server}:{pane.pane}",
            cwd=cwd,
            worktree=worktree,
            tty=pane.tty,
            pid=process.pid,
            started=process.started,
        )

    def _environment(self, order: Order) -> dict[str, str]:
        own = {key: value for key, value in {**os.environ, **self._env}.items() if key not in NOT_INHERITED}
        identity = {"FLEETTRIO_NAME": order.name} | ({"FLEETTRIO_TOKEN": order.token} if order.token else {})
        return {**own, **order.profile.env, **identity}

    def _worktree_of(self, spawn_id: Gid) -> Path | None:
        """A worktree that was made for a spawn whose record does not say so yet."""
        return next(iter(self._worktrees.glob(f"*-{spawn_id[:8]}")), None)


def _check_program(profile: Profile, folder: Path, env: Mapping[str, str]) -> None:
    """Before anything is made: tmux would start it, and it would be gone without a word."""
    program = profile.argv[0]
    found = os.access(folder / program, os.X_OK) if "/" in program else shutil.which(program, path=env.get("PATH"))
    if not found:
        raise LaunchError("command", f"the program {program} cannot be found or run")


def _command_line(profile: Profile) -> str:
    """What the process transport runs for each message; `env` sets what is the profile's own."""
    variables = [f"{key}={value}" for key, value in profile.env.items()]
    return shlex.join([*(["env", *variables] if variables else []), *profile.argv])
