"""A tmux server of our own: one session for each agent that was started, marked with what it belongs to.

Rules, each one a way in which tmux surprises:

- A pane's program gets its session's environment, and that is what `update-environment` names of the client's. So
  variables go there by the environment of the client: never on a command line, where every user of the machine reads.
- The server keeps the environment of its first client for everybody: what was one agent's alone is taken out again.
- One word is run by a shell, several are not. A word that ends in `;` ends the command. `#` begins a format.
- Without `remain-on-exit` the last screen of a program that died is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fleettrio.panes.scope import process_of
from fleettrio.panes.tmux import Tmux, TmuxError

__all__ = ("OwnServer", "Pane")

WIDTH, HEIGHT = 160, 50
"""Until a person attaches, whose terminal then decides."""
MARK = "@fleettrio"
"""The session option that says what a session belongs to."""
_DEAD = "Pane is dead"
_FORMAT = f"#{{pane_id}}|#{{pane_pid}}|#{{pane_dead}}|#{{pane_tty}}|#{{session_id}}|#{{{MARK}}}"


class Pane(msgspec.Struct, frozen=True):
    """One pane of the server. `mark` is what `start` was given, `session` tmux's id of its session."""

    pane: str
    pid: int
    dead: bool
    tty: str
    session: str
    mark: str


class _End(msgspec.Struct, frozen=True):
    """What tmux says of a pane's program: `dead` is `1`, `0`, or empty without the pane."""

    dead: str
    status: str
    signal: str
    pid: str

    @property
    def is_missed(self) -> bool:
        if self.dead == "0":
            return self.pid.isdigit() and process_of(int(self.pid)) is None
        return self.dead == "1" and not self.status and not self.signal


class OwnServer(Tmux):
    """The server called `socket`. `prefix` is put in front of the command that may start it (`panes.scope`)."""

    def __init__(self, socket: str, env: Mapping[str, str], prefix: Sequence[str] = ()) -> None:
        super().__init__(socket, env)
        self._prefix = tuple(prefix)
        # The person's own configuration is for the person's own server.
        self._argv += ["-f", "/dev/null"]

    async def start(
        self, name: str, mark: str, argv: Sequence[str], cwd: str, env: Mapping[str, str], own: Sequence[str] = ()
    ) -> Pane:
        """Run `argv` in a session `name` marked `mark`, with exactly `env`, of which `own` is nobody else's.

        Raises `TmuxError`. Cancelled, it may have been started: `find` tells.
        """
        words = [*argv] if len(argv) > 1 else ["env", *argv]
        command = [
            *("start-server", ";"),
            *("set-option", "-g", "remain-on-exit", "on", ";"),
            *("set-option", "-g", "update-environment", " ".join(sorted(env)), ";"),
            *("new-session", "-d", "-P", "-F", _FORMAT, "-s", name, "-x", str(WIDTH), "-y", str(HEIGHT)),
            *("-c", _word(cwd.replace("#", "##")), "--", *map(_word, words), ";"),
            *("set-option", "-t", f"={name}:", MARK, mark),
            *(word for variable in sorted(own) for word in (";", "set-environment", "-g", "-u", variable)),
        ]
        done = await self._run(*command, env=env, prefix=self._prefix)
        pane = _read(done.stdout.decode("utf-8", "replace"))
        if pane is None and self._prefix:
            # A scope is a kindness of the service manager; without it the server is still a session of its own.
            done = await self._run(*command, env=env)
            pane = _read(done.stdout.decode("utf-8", "replace"))
        if pane is None:
            said = done.stderr.decode("utf-8", "replace").strip() or "no answer"
            raise TmuxError(f"tmux did not start it: {said}", may_have_run=True)
        return msgspec.structs.replace(pane, mark=mark)

    async def panes(self) -> tuple[Pane, ...]:
        """Every pane of this server; empty without a server."""
        done = await self._run("list-panes", "-a", "-F", _FORMAT)
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        return tuple(pane for line in lines if (pane := _read(line)) is not None)

    async def find(self, mark: str) -> Pane | None:
        """The pane of the session marked `mark`."""
        return next((pane for pane in await self.panes() if pane.mark == mark), None)

    async def last_lines(self, pane: str, count: int) -> tuple[str, ...]:
        """The last lines with something on them, also of a pane whose program has ended."""
        # tmux writes its own word about a dead pane, and may push the program's off the screen for it.
        done = await self._run("capture-pane", "-p", "-J", "-S", f"-{HEIGHT}", "-t", pane)
        lines = [line.rstrip() for line in done.stdout.decode("utf-8", "replace").splitlines()]
        return tuple([line for line in lines if line and not line.startswith(_DEAD)][-count:])

    def watch(self, pane: Pane) -> list[str]:
        """The command line that shows the pane to this terminal until the person leaves, or is let go."""
        return [*self._argv, "attach-session", "-t", pane.pane]

    async def let_go(self, pane: Pane) -> None:
        """Whoever looks at the pane's session has the terminal back."""
        await self._run("detach-client", "-s", pane.session)

    async def exit_code(self, pane: str) -> int | None:
        """What the pane's program ended with; None while it runs, 0 once the pane is gone."""
        end = await self._end_of(pane)
        if end.is_missed:
            # It missed that its child has ended, and sees it when another one does.
            await self._run("run-shell", "true")
            end = await self._end_of(pane)
        if end.dead == "0":
            return None
        return int(end.status or 0) if not end.signal.isdigit() else 128 + int(end.signal)

    async def _end_of(self, pane: str) -> _End:
        form = "#{pane_dead}|#{pane_dead_status}|#{pane_dead_signal}|#{pane_pid}"
        done = await self._run("display-message", "-p", "-t", pane, form)
        return _End(*[*done.stdout.decode().strip().split("|"), "", "", "", ""][:4])

    async def keep_screen(self, pane: Pane, *, keep: bool) -> None:
        """Whether the pane stays with its last screen when its program has ended, or goes with it."""
        await self._run("set-option", "-p", "-t", pane.pane, "remain-on-exit", "on" if keep else "off")

    async def end(self, pane: Pane) -> None:
        """Take the session away; what still runs in it is hung up."""
        await self._run("kill-session", "-t", pane.session)


def _word(word: str) -> str:
    return f"{word[:-1]}\\;" if word.endswith(";") else word


def _read(text: str) -> Pane | None:
    parts = text.strip("\n").split("|", 5)
    if len(parts) != 6 or not parts[0].startswith("%"):
        return None
    pane, pid, dead, tty, session, mark = parts
    return Pane(pane, int(pid or 0), dead == "1", tty, session, mark)
