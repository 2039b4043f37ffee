"""Agents that read at once and note when: `python -m fleettrio.bench.readers WAY LOG`, a line of the log for each turn.

    pull     a client that waits for what comes; with `--answer` it answers it
    stream   a program that stays and is fed a line; with `--answer` it answers over the socket
    mcp      a client of `fleettrio mcp` that polls

A line is `{"event": "turn", "at": SECONDS}` by the machine's wall clock.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from fleettrio.api.schema import Confirm, Pull, Reply
from fleettrio.clients.client import Client
from fleettrio.clients.place import socket_path
from fleettrio.testing.hosts import COMMAND

__all__ = ("main",)

_WAIT_S = 50.0
ANSWER = b"done"


def _connect() -> Client:
    return Client.connect(pathlib.Path(socket_path(os.environ)), os.environ.get("FLEETTRIO_TOKEN", ""))


def pull(note: Callable[[], None], *, answers: bool) -> None:
    """A reply is the word that what it answers was taken; without one, a confirmation is."""
    with _connect() as client:
        print("READY", flush=True)
        while True:
            found = client.call("pull", Pull(limit=1, wait_s=_WAIT_S))
            for message in found.messages:
                note()
                if answers:
                    client.call("reply", Reply(re=message.msg_id, body=ANSWER))
            if found.messages and not answers:
                client.call("confirm", Confirm(found.cursor))


def stream(note: Callable[[], None], *, answers: bool) -> None:
    client = _connect() if answers else None
    for line in sys.stdin.buffer:
        note()
        if client is not None:
            client.call("reply", Reply(re=json.loads(line)["id"], body=ANSWER))
        print(json.dumps({"type": "result", "text": ""}), flush=True)


def mcp(note: Callable[[], None], *, answers: bool) -> None:
    del answers
    shim = subprocess.Popen([*COMMAND, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert shim.stdin is not None
    assert shim.stdout is not None

    def ask(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert shim.stdin is not None
        assert shim.stdout is not None
        call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        shim.stdin.write(json.dumps(call).encode() + b"\n")
        shim.stdin.flush()
        while True:
            answer: dict[str, Any] = json.loads(shim.stdout.readline())
            if answer.get("id") == number:
                return answer

    me = {"name": "bench", "version": "1"}
    ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": me})
    shim.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    print("READY", flush=True)
    number = 1
    while True:
        number += 1
        poll = {"name": "fleet_poll", "arguments": {"wait_s": 20}}
        answer = ask(number, "tools/call", poll)["result"]
        if answer.get("structuredContent", {}).get("messages"):
            note()


def main() -> None:
    way, file, *options = sys.argv[1:]
    with open(file, "ab") as log:

        def note() -> None:
            log.write(json.dumps({"event": "turn", "at": time.time()}).encode() + b"\n")
            log.flush()

        {"pull": pull, "stream": stream, "mcp": mcp}[way](note, answers="--answer" in options)


if __name__ == "__main__":
    main()
