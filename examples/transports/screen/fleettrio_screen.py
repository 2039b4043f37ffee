"""A transport into programs in GNU screen. The typing and its care are fleettrio's; this brings the terminal."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping

import trio

from fleettrio.errors import ConfigError
from fleettrio.local.harness import Harness
from fleettrio.local.typist import Typist
from fleettrio.panes.terminal import EnterForm, PaneFacts, Screen


def open_screen(target: str, harness: Harness, env: Mapping[str, str]) -> Typist:
    """The entry point: into the only window of the session `target`."""
    if not re.fullmatch(r"[\w.-]{1,80}", target):
        raise ConfigError([f"{target!r} is not a screen session"], hint="`screen -ls` names them")
    return Typist("screen", _Session(target, env), harness)


class _Session:
    def __init__(self, session: str, env: Mapping[str, str]) -> None:
        self.name, self._session, self._env = f"screen {session}", session, {**os.environ, **env}

    async def look(self, *, joined: bool) -> Screen | None:
        with tempfile.NamedTemporaryFile() as copy:
            await self._ask("-X", "hardcopy", copy.name)
            cursor = re.match(rb"\((\d+),(\d+)\)/\((\d+),(\d+)\)", await self._ask("-Q", "info"))
            server = re.search(rb"(\d+)\." + re.escape(self._session.encode()) + rb"\t", await self._ask("-ls"))
            shown = await trio.Path(copy.name).read_bytes()
        if not (cursor and server):
            return None
        x, y, width, height = map(int, cursor.groups())
        children = trio.Path(f"/proc/{server[1].decode()}/task/{server[1].decode()}/children")
        pid = int((await children.read_text()).split()[0])
        tty = os.readlink(f"/proc/{pid}/fd/0")
        facts = PaneFacts(pane="", pid=pid, tty=tty, width=width, height=height, cursor_x=x - 1, cursor_y=y - 1)
        # screen 4 copies the low byte of each character: a drawn line is NULs.
        lines = shown.decode("latin-1").replace("\0", "─").split("\n")
        return Screen(facts, tuple(line.rstrip(" ") for line in lines))

    async def paste(self, data: bytes, *, framed: bool) -> bool:
        data = b"\x1b[200~" + data + b"\x1b[201~" if framed else data
        for at in range(0, len(data), 1000):  # a buffer read from a file would have its line ends changed
            await self._ask("-X", "stuff", re.sub(rb"[\\^]", rb"\\\g<0>", data[at : at + 1000]))
        return True

    async def press(self, form: EnterForm, shown: str) -> bool:
        await self._ask("-X", "stuff", "^M")
        return True

    async def _ask(self, *words: str | bytes) -> bytes:
        command = ["screen", "-S", self._session, "-p", "0", *words]
        return (await trio.run_process(command, env=self._env, capture_stdout=True, check=False)).stdout
