"""`fleettrio mcp`: carries MCP's lines between a harness and the daemon, and outlives the daemon.

A harness starts its MCP servers once and never again, so this process must not end with the daemon; and there is one
for each session of each agent, so it is small: the standard library alone, nothing of it that starts slowly.

Rules:
1. A line goes through as it is. It is read only to know which requests are open.
2. Whatever happens to the daemon, every request gets an answer: a call that was in its hands when it ended, or that
   comes while it is away, a tool error that says what to do; at once.
3. A connection is made when a line needs one. A client of the handshake's era has said `initialize` to a daemon that is
   gone, or to nobody: it is said again for it, and that answer is kept back. Clients of the newer era have nothing to
   repeat.
4. What only asks (lists, `initialize`) waits until the daemon has been away for `HOLD_S`, and is then answered here
   (`mcp_away`): a harness gives a server up that lets it wait much longer at its start, or tells it no, for good.
5. A client that was given the tools from here is told that they changed once a daemon serves it.
6. It ends when its standard input does, and by SIGTERM.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping

from fleettrio.clients import mcp_away as away
from fleettrio.clients.place import socket_path

TYPE_CHECKING = False  # the name is known to type checkers; importing it costs a fifth of the start
if TYPE_CHECKING:
    from typing import Any

__all__ = ("Shim", "main")

LINE_LIMIT = 2 * 1024 * 1024
"""Bytes of a line to the daemon; it takes no longer one."""
HOLD_S = 5.0
"""A daemon that is being started is there by then. Codex waits 10 s for all of a server's start, Claude Code 30 s."""
_RETRY_S = 0.25
_CHUNK = 64 * 1024
_BACKLOG = 4 * LINE_LIMIT
"""Bytes on their way to the daemon at which no more is read from the harness."""
_OWN_ID = "fleettrio-mcp"
"""Of the requests that this process makes itself."""
_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.){0,200}"|-?\d{1,18})')
_TOO_LONG = f"this call is longer than {LINE_LIMIT} bytes and was not made: send a file's path instead of its content"


class Shim:
    """One client on standard input and output, and the daemon while there is one."""

    def __init__(self, env: Mapping[str, str], names: str, write: Callable[[bytes], object]) -> None:
        self._env = env
        self._names = names
        self._write = write
        self._daemon: socket.socket | None = None
        self._to_daemon = bytearray()
        self._from_daemon = bytearray()
        self._from_client = bytearray()
        self._tail = b""
        """The end of a line that is too long, while the rest of it is passed over."""
        self._open: dict[Any, dict[str, Any]] = {}
        """Requests that the daemon has, by id."""
        self._held: list[tuple[dict[str, Any], bytes]] = []
        """What waits for a daemon."""
        self._away_since = time.monotonic()
        """When the last one that served this went; or the start."""
        self._greeting: bytes = b""
        self._greeted: bytes = b""
        """The client's `initialize` and what followed it, to be said again."""
        self._refused = ""
        """Why the daemon would not serve this, when it said so."""
        self._served = False
        self._gave_tools = False
        """The client was given the tools from here."""

    def run(self, stdin: int) -> None:
        """Carry lines until `stdin` ends."""
        self._connect()
        while True:
            poll = select.poll()
            if len(self._to_daemon) < _BACKLOG:
                poll.register(stdin, select.POLLIN)
            if self._daemon is not None:
                poll.register(self._daemon, select.POLLIN | (select.POLLOUT if self._to_daemon else 0))
            daemon = -1 if self._daemon is None else self._daemon.fileno()
            for ready, events in poll.poll(_RETRY_S * 1000 if self._held else None):
                if ready == daemon:
                    self._serve_daemon(events)
                elif not self._read_client(stdin):
                    return
            self._try_held()

    # --- the client's side

    def _read_client(self, stdin: int) -> bool:
        chunk = os.read(stdin, _CHUNK)
        if not chunk:
            return False
        self._from_client += chunk
        while (end := self._from_client.find(b"\n", max(0, len(self._from_client) - len(chunk)))) >= 0:
            line = bytes(self._from_client[: end + 1])
            del self._from_client[: end + 1]
            chunk = bytes(self._from_client)
            self._take_line(line)
        if len(self._from_client) > LINE_LIMIT:
            self._tail = self._tail or bytes(self._from_client[:400])
            del self._from_client[:-400]
        return True

    def _take_line(self, line: bytes) -> None:
        if self._tail or len(line) > LINE_LIMIT:
            self._refuse_long(self._tail or line[:400], line[-400:])
            self._tail = b""
            return
        if not line.strip():
            return
        request = _read(line)
        if request.get("method") == "initialize":
            self._greeting, self._greeted = line, b""
        self._pass_on(request, line)
        if request.get("method") == "notifications/initialized":
            self._greeted = line

    def _refuse_long(self, head: bytes, tail: bytes) -> None:
        found = _ID.search(head) or next(iter(reversed(list(_ID.finditer(tail)))), None)
        method = "tools/call" if found and b'"tools/call"' in head + tail else ""
        self._fail({"id": json.loads(found[1]) if found else None, "method": method}, _TOO_LONG)

    def _pass_on(self, request: dict[str, Any], line: bytes) -> None:
        if self._daemon is None:
            self._connect(greet=request.get("method") != "initialize")
        if self._daemon is not None:
            if _is_request(request):
                self._open[request["id"]] = request
            self._to_daemon += line
        elif _is_request(request) and request["method"] in away.WAITING:
            self._held.append((request, line))
        elif _is_request(request):
            self._answer_here(request)
        elif not away.is_message(request):
            self._answer(away.refusal(line))

    def _try_held(self) -> None:
        if not self._held:
            return
        held, self._held = self._held, []
        is_over, is_greeting = time.monotonic() >= self._away_since + HOLD_S, held[0][0]["method"] == "initialize"
        if self._daemon is None:
            self._connect(greet=not is_greeting)
        for request, line in held:
            if self._daemon is not None:
                self._pass_on(request, line)
            elif is_over:
                self._answer_here(request)
            else:
                self._held.append((request, line))

    def _answer_here(self, request: dict[str, Any]) -> None:
        """No daemon serves it."""
        self._gave_tools |= request["method"] == "tools/list"
        self._answer(away.answer(request, self._names, self._refused))

    def _fail(self, request: dict[str, Any], why: str) -> None:
        self._answer(away.failure(request, why))

    def _answer(self, message: dict[str, Any]) -> None:
        self._write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    # --- the daemon's side

    def _connect(self, *, greet: bool = True) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(socket_path(self._env))
        except OSError:
            connection.close()
            return
        connection.setblocking(False)
        self._daemon, self._served = connection, False
        params = {"token": self._env.get("FLEETTRIO_TOKEN", ""), "names": self._names, "cwd": _here()}
        hello = {"jsonrpc": "2.0", "id": _OWN_ID, "method": "mcp", "params": params}
        self._to_daemon = bytearray(json.dumps(hello).encode() + b"\n")
        if greet and self._greeting:
            again = {**_read(self._greeting), "id": _OWN_ID}
            self._to_daemon += json.dumps(again).encode() + b"\n" + self._greeted

    def _serve_daemon(self, events: int) -> None:
        assert self._daemon is not None
        try:
            if events & select.POLLOUT and self._to_daemon:
                sent = self._daemon.send(memoryview(self._to_daemon)[:_CHUNK])
                del self._to_daemon[:sent]
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                chunk = self._daemon.recv(_CHUNK)
                if not chunk:
                    self._lost()
                    return
                self._take_chunk(chunk)
        except OSError as problem:
            if problem.errno not in (errno.EAGAIN, errno.EINTR):
                self._lost()

    def _take_chunk(self, chunk: bytes) -> None:
        searched = len(self._from_daemon)
        self._from_daemon += chunk
        while (end := self._from_daemon.find(b"\n", searched)) >= 0:
            line = bytes(self._from_daemon[: end + 1])
            del self._from_daemon[: end + 1]
            searched = 0
            message = _read(line)
            if message.get("id") == _OWN_ID or not self._served:
                self._note_own(message)
                continue
            if "method" not in message:
                self._open.pop(message.get("id"), None)
            self._write(line)

    def _note_own(self, message: dict[str, Any]) -> None:
        """What is said to this process itself: a daemon that does not serve it says why, and is none."""
        error = message.get("error") or {}
        hint = (error.get("data") or {}).get("hint", "")
        self._refused = f"fleettrio cannot serve this: {error.get('message')}; {hint}." if error else ""
        if error and self._daemon is not None:
            self._lost()
            return
        self._served = not error
        if self._gave_tools and self._greeting:
            self._gave_tools = False
            self._answer({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    def _lost(self) -> None:
        """The daemon went: what it had in hand is told, what only asks is asked again."""
        assert self._daemon is not None
        self._daemon.close()
        self._daemon = None
        if self._served:  # one that never served was never there
            self._away_since = time.monotonic()
        self._to_daemon.clear()
        self._from_daemon.clear()
        pending, self._open = self._open, {}
        for request in pending.values():
            if request["method"] == "tools/call":
                self._fail(request, self._refused or away.LOST)
            else:
                self._held.append((request, json.dumps(request).encode() + b"\n"))


def _read(line: bytes) -> dict[str, Any]:
    """A line as a message; an empty one for what is none, which the daemon answers."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _is_request(message: dict[str, Any]) -> bool:
    is_call = message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str)
    return is_call and type(message.get("id")) in (str, int)


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # the folder was taken away
        return ""


def _write_out(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


_USAGE = """usage: fleettrio mcp [--names seed4]

MCP server on standard input and output, for a harness to start.
`--names seed4` adds the tools msg_send, inbox_read, inbox_ack, session_wake.

Example:
  claude mcp add --scope user fleet -- fleettrio mcp
"""


def main(arguments: list[str]) -> int:
    """Be the server until the client goes. `arguments` are those behind `mcp`."""
    if arguments in (["--help"], ["-h"]):
        sys.stdout.write(_USAGE)
        return 0
    if arguments not in ([], ["--names", "seed4"], ["--names=seed4"]):
        sys.stderr.write(f"error: fleettrio mcp does not know {' '.join(arguments)!r}\n{_USAGE}")
        return 2
    try:
        Shim(os.environ, "seed4" if arguments else "", _write_out).run(0)
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the harness went
    return 0
