"""`send --lines`: one message for each line of JSON on standard input, one line of JSON for what came of it.

What is there is sent together; nothing waits for more to come. A line that cannot be sent costs itself alone.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from fleettrio.api.schema import NotSent, Send, SendMany, Sent, SentMany, SentWord
from fleettrio.clients.cli.table import note
from fleettrio.clients.cli.waiting import worst_of
from fleettrio.clients.client import REQUEST_LIMIT, CallFailed, Client, ConnectionLost
from fleettrio.complaints import complaint
from fleettrio.errors import UNKNOWN, USAGE

__all__ = ("send_lines",)

MOST = 256
"""Messages in one call."""
_ROOM = 1_024
"""Bytes of a request beside its messages."""
_CHUNK = 256 * 1024
_SHAPE = '{"to": "worker@beta", "text": "please review"}'
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _Told(msgspec.Struct, omit_defaults=True):
    """What is printed for a line; its number counts from 1."""

    line: int
    messages: list[SentWord] = []
    error: NotSent | None = None


class _Outcomes:
    """What came of the lines: printed one by one, remembered as a whole."""

    def __init__(self) -> None:
        self.codes: set[int] = set()
        self.has_failed = False
        """A message was made, and did not go out."""

    def tell(self, number: int, sent: Sent) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(_Told(number, sent.messages, sent.error)) + b"\n")
        sys.stdout.buffer.flush()
        if sent.error:
            self.codes.add(sent.error.exit_code)
        codes = {word.exit_code for word in sent.messages}
        self.codes |= codes
        self.has_failed = self.has_failed or any(codes)


def send_lines(client: Client, stream: BinaryIO) -> int:
    """Send what stands in `stream` to its end; the exit code of the worst.

    Raises ConnectionLost when the daemon goes, or Ctrl-C comes, while it has some in hand: each of those is told as
    unknown, and nothing behind them is sent.
    """
    outcomes = _Outcomes()
    for lines in _arriving(stream):
        batch: list[tuple[int, Send]] = []
        room = 0
        for number, line in lines:
            try:
                request, size = _read(line)
            except ValueError as problem:
                _send(client, batch, outcomes)
                batch = []
                outcomes.tell(number, _refused(str(problem)))
                continue
            if len(batch) == MOST or size > room:
                _send(client, batch, outcomes)
                batch, room = [], REQUEST_LIMIT - _ROOM
            batch.append((number, request))
            room -= size
        _send(client, batch, outcomes)
    if outcomes.has_failed:
        note("`fleettrio show ID` says why a message failed, and how the same message is sent again")
    return worst_of(outcomes.codes)


def _send(client: Client, batch: list[tuple[int, Send]], outcomes: _Outcomes) -> None:
    """Send these together and tell what came of each."""
    if not batch:
        return
    try:
        sent: SentMany = client.call("send_many", SendMany([request for _, request in batch]))
    except CallFailed as problem:
        refused = Sent(error=NotSent(problem.reason, str(problem), problem.hint, problem.exit_code))
        for number, _ in batch:
            outcomes.tell(number, refused)
        return
    except (ConnectionLost, KeyboardInterrupt) as problem:
        why = str(problem) or "stopped before the daemon had answered"
        text, hint = f"it may or may not have been sent: {why}", "fleettrio inbox --sent shows what the daemon has"
        for number, _ in batch:
            outcomes.tell(number, Sent(error=NotSent("unknown", text, hint, UNKNOWN)))
        last = batch[-1][0]
        lost = ConnectionLost(f"nothing behind line {last} was sent, and {len(batch)} up to it are unknown", hint=hint)
        lost.exit_code = UNKNOWN
        raise lost from None
    for (number, _), one in zip(batch, sent.results, strict=True):
        outcomes.tell(number, one)


def _refused(message: str) -> Sent:
    hint = f"a line is {_SHAPE}; fleettrio send --help names the other keys"
    return Sent(error=NotSent("bad-line", message, hint, USAGE))


def _read(line: bytes) -> tuple[Send, int]:
    """The message in a line, and the bytes it takes in a request. Raises ValueError, saying what is wrong with it."""
    if len(line) > REQUEST_LIMIT - _ROOM:
        raise ValueError(f"the line is over {REQUEST_LIMIT - _ROOM} bytes: send the path of a file instead")
    try:
        fields = msgspec.json.decode(line)
    except msgspec.ValidationError:  # JSON has no bounds for numbers
        raise ValueError("a number in it is out of range") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ValueError(f"not JSON: {str(problem).removeprefix('JSON is malformed: ')}") from None
    if not isinstance(fields, dict):
        raise ValueError("not an object of JSON")
    try:
        request = msgspec.convert(_as_asked(fields), Send)
    except msgspec.ValidationError as problem:
        raise ValueError(complaint(problem)) from None
    if request.expires_s is not None and request.expires_s <= 0:
        raise ValueError("expires_s: must be above 0: it would never be delivered")
    return request, len(msgspec.json.encode(request)) + 1


def _as_asked(fields: dict[str, Any]) -> dict[str, Any]:
    """The line's keys as the daemon has them. Raises ValueError for what only a line can have wrong."""
    asked = {key: value for key, value in fields.items() if key != "text"}
    to = asked.get("to", [])
    if not isinstance(to, str | list):
        raise ValueError("to: must be a name, or a list of names")
    if isinstance(to, str):
        asked["to"] = to = [name for part in to.split(",") if (name := part.strip())]
    if not to:
        raise ValueError("to: names nobody")
    if ("text" in fields) is ("body" in fields):
        raise ValueError("it must have `text` or `body`, and not both")
    name = "text" if "text" in fields else "body"
    if not isinstance(given := fields[name], str):
        raise ValueError(f"{name}: must be a text")
    if not given:
        raise ValueError(f"{name}: is empty, so there is nothing to send")
    if name == "text":
        asked["body"] = base64.b64encode(given.encode("utf-8", "surrogatepass")).decode()
    return asked


def _arriving(stream: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """The lines that are there, with their numbers, as they come; blank ones are passed over."""
    number, rest, is_open = 0, b"", True
    while is_open:
        data = stream.read1(_CHUNK)  # type: ignore[attr-defined]  # as every buffered stream has it
        is_open = bool(data)
        *lines, rest = (rest + data).split(b"\n")
        if not is_open:
            lines.append(rest)
        if lines and not number:
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        rest = rest[:REQUEST_LIMIT]  # too long already
        yield [(number + at, line) for at, line in enumerate(lines, 1) if line.strip()]
        number += len(lines)
