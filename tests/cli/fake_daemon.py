"""A small daemon with canned answers, on the real local socket, and the command run against it."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import pathlib
import pty
import queue
import re
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import trio

from fleettrio.api import schema
from fleettrio.api.callers import Caller, CallerRules, Process
from fleettrio.api.rpc import Connection, serve
from fleettrio.clients.cli.main import run
from fleettrio.config import resolve_paths

Answer = Any
"""A result, an exception to raise, a function of the params, or a list of these, taken one a call."""


class FakeDaemon:
    """Answers from `answers`, remembers `calls`. The method `hang` as an answer never returns."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        self.calls: list[tuple[str, Any]] = []
        self.called: queue.Queue[str] = queue.Queue()
        self.answers: dict[str, Answer] = {"hello": self._hello, "beside": schema.people.Beside()}
        self._started = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main,))

    @staticmethod
    def _hello(params: schema.Hello) -> schema.Welcome:
        return schema.Welcome("alpha", params.version, "human", "gid-human", True, "", os.getpid())

    @staticmethod
    async def hang(_params: Any) -> Any:
        await trio.sleep_forever()

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(60)

    def stop(self) -> None:
        """Like a daemon that is killed: what it has in hand ends unanswered."""
        if self._thread.is_alive():
            self._token.run_sync_soon(self._scope.cancel)
            self._thread.join(60)

    def params_of(self, method: str) -> list[Any]:
        return [params for called, params in self.calls if called == method]

    async def _main(self) -> None:
        rules = CallerRules(uid=os.getuid(), human="gid-human", entities=tuple, read=lambda pid: Process(pid, 0, "tty"))
        self._token = trio.lowlevel.current_trio_token()
        methods = {name: self._handler(name) for name in schema.METHODS}
        path = resolve_paths({"FLEETTRIO_HOME": str(self.home)}).socket
        with trio.CancelScope() as self._scope:
            await serve(path, methods, rules, task_status=_Started(self._started))

    def _handler(self, method: str) -> Callable[[Any, Caller, Connection], Any]:
        async def handle(params: Any, _caller: Caller, _connection: Connection) -> Any:
            self.calls.append((method, params))
            self.called.put(method)
            answer = self.answers[method]
            if isinstance(answer, list):
                answer = answer.pop(0)
            if callable(answer):
                answer = answer(params)
            if isinstance(answer, Exception):
                raise answer
            return await answer if hasattr(answer, "__await__") else answer

        return handle


class _Started(trio.TaskStatus[None]):
    """Tells a thread, not a nursery, that the socket is there."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def started(self, value: object = None) -> None:
        self._event.set()


@dataclasses.dataclass
class Ran:
    """A command that has ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    def decoded(self, kind: type[Any]) -> Any:
        """Standard output as the one JSON document it must be."""
        return msgspec.json.decode(self.out, type=kind)


class Cli:
    """Runs commands in this process, with standard streams that are pipes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: pathlib.Path) -> None:
        self._monkeypatch = monkeypatch
        self.home = home

    def __call__(self, *words: str, stdin: bytes = b"") -> Ran:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with self._monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
            patched.setattr(sys, "stdout", out)
            patched.setattr(sys, "stderr", err)
            code = run(list(words))
        return Ran(code, _written(out), _written(err).decode())

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """The command as a process of its own."""
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([sys.executable, "-m", "fleettrio", *words], **(pipes | options))

    def on_terminal(self, *words: str, columns: int = 80) -> list[str]:
        """The lines that the command, a process of its own, shows on a terminal of so many columns."""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (50, columns))
        with self.start(*words, stdout=theirs) as process:
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # the last one has closed the terminal
                while piece := os.read(ours, 10_000):
                    shown += piece
            process.wait(90)
        os.close(ours)
        return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()


def _written(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue()
