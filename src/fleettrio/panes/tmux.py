"""Driver of tmux: what is in a pane, and how bytes get into it. It decides nothing about messages.

Rules, each one a way in which tmux loses or breaks something (seen with 3.3a):

- A paste into a dead pane ends the tmux server and every pane on it; in copy mode it arrives without its frame, and
  keys are swallowed with exit code 0. So paste and keys go through `if-shell -F`: the server itself looks, in the same
  step, and says whether it did it.
- `-p` without `-r` turns line feeds into Enter. `send-keys -l` eats a `;` at the end and refuses long text: text goes
  by a buffer read from standard input.
- A client in a locale that is not UTF-8 prints `_` for everything else: hence `-u`.
- A look and a key are two commands, and between them a dialog may open that Enter would answer. So Enter can be tied to
  a word that must stand on the screen at that moment: the server searches it in the same step.
- `$TMUX` would make a bare `%3` mean the server that happens to be around the daemon: it is taken away.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
from collections.abc import Mapping, Sequence

import trio

from fleettrio.errors import ConfigError
from fleettrio.panes.terminal import EnterForm, PaneFacts, Screen, TerminalError

__all__ = ("Tmux", "TmuxError", "parse_target")

COMMAND_LIMIT_S = 10.0
"""Bound of one tmux call. A server that is slower is not one to type into."""

_TARGET = re.compile(r"(?:(?P<socket>[^:\s]+):)?(?P<pane>%\d{1,9})")
_FIELDS = (
    "pane_id",
    "pane_dead",
    "pane_in_mode",
    "pane_pid",
    "pane_width",
    "pane_height",
    "cursor_x",
    "cursor_y",
    "alternate_on",
    "bracket_paste_flag",
    "pane_tty",
)
_FORMAT = "|".join([*(f"#{{{field}}}" for field in _FIELDS), "#{s/[|]/_/:pane_current_command}", "#{pane_title}"])
_NOBODY_THERE = ("can't find pane", "no server running", "error connecting to")
_WRITABLE = "#{?pane_dead,0,#{?pane_in_mode,0,1}}"


class TmuxError(TerminalError):
    """tmux could not be asked. `may_have_run` is False when it is certain that the command did nothing."""


def parse_target(target: str) -> tuple[str | None, str]:
    """`%3` or `socket:%3` as (socket or None, pane id). Raises `ConfigError` for anything else."""
    if match := _TARGET.fullmatch(target):
        return match["socket"], match["pane"]
    raise ConfigError(
        [f"{target!r} is not a tmux pane"],
        hint="give a pane id such as %3, or socket:%3 for another server; `tmux display -p '#{pane_id}'` prints it",
    )


class Tmux:
    """One tmux server, reached by its command line. Calls are independent: nothing is kept between them.

    `socket` is a name (`tmux -L`) or a path (`-S`), None for the user's usual server; `env` is added to our own.
    """

    def __init__(self, socket: str | None = None, env: Mapping[str, str] | None = None) -> None:
        self.socket = socket
        own = {**os.environ, **(env or {})}
        self._env = {key: value for key, value in own.items() if key not in ("TMUX", "TMUX_PANE")}
        server = [] if socket is None else ["-S" if "/" in socket else "-L", socket]
        self._argv = ["tmux", "-u", *server]

    async def resolve(self, target: str) -> str | None:
        """The id of the pane that any tmux target (`work:0.1`) names now; None when there is none."""
        done = await self._run("display-message", "-p", "-t", target, "#{pane_id}")
        return done.stdout.decode().strip() or None

    async def exists(self, pane: str) -> bool:
        return await self.facts(pane) is not None

    async def facts(self, pane: str) -> PaneFacts | None:
        """What tmux knows of `pane`; None when there is no such pane or no server."""
        done = await self._run("display-message", "-p", "-t", pane, _FORMAT)
        return _read_facts(done.stdout.decode("utf-8", "replace").rstrip("\n"))

    async def capture(self, pane: str) -> tuple[str, ...] | None:
        """The visible lines, wrapped ones joined; None when there is no such pane."""
        screen = await self.look(pane, joined=True)
        return screen.lines if screen else None

    async def look(self, pane: str, *, joined: bool) -> Screen | None:
        """Facts and lines of one moment; None when there is no such pane.

        `joined` makes one line of what tmux wrapped. It goes by marks that stay on a row when a program paints over
        it, so a painted screen is read row by row.
        """
        capture = ("capture-pane", "-p", *(["-J"] if joined else []), "-t", pane)
        done = await self._run("display-message", "-p", "-t", pane, _FORMAT, ";", *capture)
        first, _, rest = done.stdout.decode("utf-8", "replace").partition("\n")
        facts = _read_facts(first)
        if facts is None:
            return None
        # Only blanks: a no-break space is part of some prompts.
        return Screen(facts, tuple(line.rstrip(" ") for line in rest.split("\n")[: facts.height]))

    async def paste(self, pane: str, data: bytes) -> bool:
        """Put `data` in as one paste (in a paste frame, if the program asked for one). False: not a byte went in.

        Raises `TmuxError`; its `may_have_run` says whether bytes may have gone in. After cancellation they may have.
        """
        name = f"fleettrio-{secrets.token_hex(8)}"
        load = ("load-buffer", "-b", name, "-")
        done = False
        try:
            done = await self._guarded(pane, f"paste-buffer -p -r -d -b {name} -t {pane}", load, data)
        finally:
            if not done:
                await self._forget(name)
        return done

    async def send_enter(self, pane: str, form: EnterForm, shown: str = "") -> bool:
        """Press Enter, by name or as the control key that is the same, if `shown` (letters and digits) stands on the
        screen. False: it was not pressed. Raises as `paste`."""
        test = f"#{{&&:{_WRITABLE},#{{C:{shown}}}}}" if shown else _WRITABLE
        return await self._guarded(pane, f"send-keys -t {pane} {form}", test=test)

    async def _guarded(
        self, pane: str, command: str, first: tuple[str, ...] = (), data: bytes = b"", test: str = _WRITABLE
    ) -> bool:
        """Run `command` only if the pane can take it, judged by the server in the same step."""
        lead = (*first, ";") if first else ()
        then = f"{command} ; display-message -p done"
        done = await self._run(*lead, "if-shell", "-F", "-t", pane, test, then, "display-message -p refused", data=data)
        said = done.stdout.decode("utf-8", "replace").split()
        if said == ["done"]:
            return True
        complaint = done.stderr.decode("utf-8", "replace").strip()
        if said == ["refused"] or any(word in complaint for word in _NOBODY_THERE):
            return False
        raise TmuxError(f"tmux did not say whether it ran: {complaint or 'no answer'}", may_have_run=True)

    async def _forget(self, name: str) -> None:
        """Take a buffer that was not pasted out of the server: it holds a message."""
        with trio.move_on_after(2, shield=True), contextlib.suppress(TmuxError):
            await self._run("delete-buffer", "-b", name)

    async def _run(
        self, *command: str, data: bytes = b"", env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[bytes]:
        """One tmux client, bounded. Its exit code is left to the caller: 3.3 is not steady about it.

        `env` instead of the usual one, `prefix` in front of the whole command line.
        """
        try:
            with trio.fail_after(COMMAND_LIMIT_S):
                return await trio.run_process(
                    [*prefix, *self._argv, *command],
                    stdin=data,
                    capture_stdout=True,
                    capture_stderr=True,
                    check=False,
                    env=self._env if env is None else env,
                )
        except trio.TooSlowError as error:
            raise TmuxError(f"tmux did not answer within {COMMAND_LIMIT_S:.0f} s", may_have_run=True) from error
        except OSError as error:
            raise TmuxError(f"tmux cannot be started: {error.strerror}", hint="install the package tmux") from error


def _read_facts(line: str) -> PaneFacts | None:
    parts = line.split("|", len(_FIELDS) + 1)
    if len(parts) != len(_FIELDS) + 2 or not parts[0].startswith("%"):
        return None
    pane, dead, mode, pid, width, height, cursor_x, cursor_y, alternate, brackets, tty, command, title = parts
    return PaneFacts(
        pane=pane,
        dead=dead == "1",
        in_mode=mode not in ("", "0"),
        pid=int(pid or 0),
        width=int(width or 0),
        height=int(height or 0),
        cursor_x=int(cursor_x or 0),
        cursor_y=int(cursor_y or 0),
        alternate=alternate == "1",
        takes_brackets=brackets == "1" if brackets else None,
        tty=tty,
        command=command,
        title=title,
    )
