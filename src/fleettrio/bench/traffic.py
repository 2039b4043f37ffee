"""The two ends of a hop as programs of their own: a source that keeps sends in flight, a sink that notes what comes.

`python -m fleettrio.bench.traffic source|sink`, with a `Task` as JSON on standard input. A sink prints READY when it is
there. Each prints a `Told` as JSON at its end. They speak the local socket as any client does, in as few steps as they
can: the daemons are what is measured, on a machine that both share.
"""

from __future__ import annotations

import base64
import dataclasses
import os
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from fleettrio.api.schema import Confirm, Hello, Pull
from fleettrio.errors import FleetTrioError

__all__ = ("IN_FLIGHT", "Task", "Told", "TrafficFailed", "Way")

IN_FLIGHT = 60
"""Open requests of one connection; the daemon takes 64."""
_CHUNK = 1 << 20
_SILENT_S = 90.0
_WAIT_S = 50.0
_PULL = 200
_LOST = frozenset({"failed", "expired", "unknown"})


class TrafficFailed(FleetTrioError):
    """A source or a sink could not do its work."""


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """How a source goes about it: connections, open requests on each, messages of a request."""

    connections: int
    in_flight: int
    group: int = 1

    def __str__(self) -> str:
        method = "a send" if self.group == 1 else f"a send_many of {self.group}"
        links = "one connection" if self.connections == 1 else f"{self.connections} connections"
        return f"{links}, {self.in_flight} times {method} open on each"


class Task(msgspec.Struct, kw_only=True):
    """A source sends `count` messages of `body` random bytes to `to` in turn, on a connection for each token.

    A sink takes what comes to its tokens' agents until it has `count` messages, or nothing comes for 20 s.
    """

    socket: str
    tokens: list[str]
    count: int
    to: list[str] = []
    body: int = 1024
    in_flight: int = IN_FLIGHT
    group: int = 1


class Told(msgspec.Struct, kw_only=True):
    """`ids` of accepted or received messages, repeats included; times by the monotonic clock of the machine."""

    ids: list[str]
    began: float
    ended: float
    cpu: float
    """Seconds of the program itself."""
    at: list[float] = []
    """When each of `ids` was written to the daemon's socket, or read from it."""
    refused: dict[str, int] = {}
    """What was not accepted, by the daemon's own word."""


class _View(msgspec.Struct):
    msg_id: str
    state: str = ""


class _Error(msgspec.Struct):
    message: str = ""


class _Sent(msgspec.Struct):
    messages: list[_View] = []
    error: _Error | None = None


class _Result(msgspec.Struct):
    messages: list[_View] = []
    results: list[_Sent] = []
    cursor: int = 0


class _Answer(msgspec.Struct):
    id: int | None = None
    result: _Result | None = None
    error: _Error | None = None


_ANSWERS = msgspec.json.Decoder(_Answer)


class _Line:
    """One connection: requests out, answers in, none of them waited for."""

    def __init__(self, place: str, token: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(_SILENT_S)
        self.socket.connect(place)
        self._buffer = bytearray()
        self.send(0, "hello", Hello(token, "bench"))
        while not self.answers():
            pass

    def send(self, number: int, method: str, params: Any) -> None:
        self.write(request(number, method, params))

    def write(self, lines: bytes) -> None:
        self.socket.sendall(lines)

    def answers(self) -> list[_Answer]:
        """What one read brings."""
        chunk = self.socket.recv(_CHUNK)
        if not chunk:
            raise TrafficFailed("the daemon hung up on the benchmark's client")
        self._buffer += chunk
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        return [_ANSWERS.decode(line) for line in lines]


def request(number: int, method: str, params: Any) -> bytes:
    call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return msgspec.json.encode(call) + b"\n"


def source(task: Task) -> Told:
    """Send everything; the window of each connection is filled again as answers come."""
    requests = _Requests(task)
    lines = [_Line(task.socket, token) for token in task.tokens]
    told = Told(ids=[], began=time.monotonic(), ended=0.0, cpu=time.process_time())
    for line in lines:
        line.write(requests.next(task.in_flight))
    done = 0
    with selectors.DefaultSelector() as ready:
        for line in lines:
            ready.register(line.socket, selectors.EVENT_READ, line)
        while done < task.count:
            for key, _ in ready.select(_SILENT_S) or _silence(done, task.count):
                answers = key.data.answers()
                key.data.write(requests.next(len(answers)))
                done += sum(_note(answer, told, task.group, requests.written) for answer in answers)
    return _ended(told)


class _Requests:
    """The requests of a source, with a place for their ids: encoding a body for each is no work of the hop."""

    def __init__(self, task: Task) -> None:
        body = base64.b64encode(os.urandom(task.body))
        sends = [b'{"to":["%b"],"body":"%b"}' % (address.encode(), body) for address in task.to]
        groups = [b",".join([send] * task.group) for send in sends]
        self._one = [b'{"jsonrpc":"2.0","id":%%d,"method":"send","params":%b}\n' % send for send in sends]
        self._many = [
            b'{"jsonrpc":"2.0","id":%%d,"method":"send_many","params":{"messages":[%b]}}\n' % group for group in groups
        ]
        self._group, self._left = task.group, task.count
        self.written: list[float] = []
        """When the requests 1, 2, 3… were made up."""

    def next(self, free: int) -> bytes:
        """As many as there is room for; the last messages go one by one where they fill no group."""
        lines = []
        now = time.monotonic()
        while free > 0 and self._left > 0:
            is_whole = 1 < self._group <= self._left
            form = self._many if is_whole else self._one
            number = len(self.written)
            lines.append(form[number % len(form)] % (number + 1))
            self.written.append(now)
            self._left -= self._group if is_whole else 1
            free -= 1
        return b"".join(lines)


def _note(answer: _Answer, told: Told, group: int, written: Sequence[float]) -> int:
    """Note what became of each message of a request; how many these are."""
    result = answer.result
    if result is None:
        word = answer.error.message if answer.error else "no result"
        told.refused[word] = told.refused.get(word, 0) + 1
        return group
    sent = result.results or [_Sent(result.messages)]
    for one in sent:
        view = one.messages[0] if one.messages else None
        if view is not None and view.state not in _LOST:
            told.ids.append(view.msg_id)
            told.at.append(written[(answer.id or 0) - 1])
        else:
            word = view.state if view else one.error.message if one.error else "no result"
            told.refused[word] = told.refused.get(word, 0) + 1
    return len(sent)


def sink(task: Task) -> Told:
    """Pull and confirm in turn on each connection until everything is there."""
    lines = [_Line(task.socket, token) for token in task.tokens]
    told = Told(ids=[], began=time.monotonic(), ended=0.0, cpu=time.process_time())
    pull = request(1, "pull", Pull(limit=_PULL, wait_s=_WAIT_S))
    heard = time.monotonic()
    with selectors.DefaultSelector() as ready:
        for line in lines:
            ready.register(line.socket, selectors.EVENT_READ, line)
            line.write(pull)
        print("READY", flush=True)
        while len(told.ids) < task.count and time.monotonic() - heard < _SILENT_S:
            for key, _ in ready.select(_SILENT_S):
                for answer in key.data.answers():
                    if answer.id != 1 or answer.result is None:
                        continue
                    found = answer.result.messages
                    if found:
                        heard = time.monotonic()
                        told.ids += [view.msg_id for view in found]
                        told.at += [heard] * len(found)
                        key.data.send(2, "confirm", Confirm(answer.result.cursor))
                    key.data.write(pull)
    # What was confirmed last is read to its answer: hanging up before it would offer it to the next sink.
    told = _ended(told)
    for line, token in zip(lines, task.tokens, strict=True):
        line.send(3, "hello", Hello(token, "bench"))
        while not any(answer.id == 3 for answer in line.answers()):
            pass
    return told


def _silence(done: int, count: int) -> Any:
    raise TrafficFailed(f"the daemon answered {done} of {count} sends and then nothing for {_SILENT_S:g} s")


def _ended(told: Told) -> Told:
    told.ended = time.monotonic()
    told.cpu = time.process_time() - told.cpu
    return told


def main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    told = {"source": source, "sink": sink}[sys.argv[1]](task)
    sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")


if __name__ == "__main__":
    main()
