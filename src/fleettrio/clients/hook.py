"""`fleettrio-hook HARNESS` and `fleettrio-hook wait HARNESS`: what a harness runs at its events.

It says one thing to the daemon, prints what the daemon answers, and is gone. What it means is decided there, so a newer
daemon needs no new hook. Rules:

1. It never stands in the way: without a daemon, with a deaf one, with an answer it cannot read, it prints nothing and
   exits 0. A daemon has `ALIVE_S` to say that it lives (`FLEETTRIO_HOOK_ALIVE_S` says otherwise, for a machine that
   is always busy), and `ANSWER_S` to answer from then on.
2. It starts in a few milliseconds: nothing is imported but parts of the interpreter that are there anyway and its
   socket. No `json`, no `re`, no package of ours. So texts travel as base64, and the answer is read by its quotes.
   Only of an input that is longer than the daemon takes the largest fields have to be found: the rest is told.
3. `wait` stays until the daemon has something that wakes the agent, across restarts of the daemon, and leaves with the
   program that started it. That may have put a shell in between, which stays: so it leaves as well when nobody is there
   any more to read what it would say.
"""

from __future__ import annotations

import _socket
import os
import sys
from binascii import Error, a2b_base64, b2a_base64
from time import monotonic, sleep

__all__ = ("main",)

ALIVE_S = 0.15
ANSWER_S = 5.0
LOOK_S = 2.0
"""How often a waiting hook looks whether somebody still waits for it."""
AGAIN_S = (0.2, 5.0)
"""Pauses between attempts to reach a daemon that went: at first, at most."""
INPUT_LIMIT = 1024 * 1024
"""Bytes. More is not passed on: the daemon would refuse the line."""
READ_LIMIT = 16 * 1024 * 1024
"""Bytes. What is longer is not looked at: that would take long."""
ANSWER_LIMIT = 4 * 1024 * 1024
PASSED_ON = ("TMUX", "TMUX_PANE", "HERDR_PANE_ID", "CLAUDE_PID", "CLAUDE_CODE_SESSION_ID", "OPENCODE_PID")


def main() -> None:
    """Exits 0, or with the code that the daemon asked for (2 wakes an agent, or stops a prompt)."""
    code = 0
    try:
        code = _run(sys.argv[1:])
    except (OSError, ValueError, LookupError, RecursionError, Error, KeyboardInterrupt):
        code = 0
    os._exit(code)  # nothing is left to tidy up, and that takes longer than all of the above


def _run(arguments: list[str]) -> int:
    waits = arguments[:1] == ["wait"]
    names = arguments[1:] if waits else arguments
    if len(names) != 1 or not names[0].replace("-", "").isalnum():
        os.write(2, b"usage: fleettrio-hook [wait] claude|codex|opencode, with the hook's input on stdin\n")
        return 0
    given = _read_stdin()
    if len(given) > INPUT_LIMIT:
        given = _without_the_largest(given)
    request = _request("hook.wait" if waits else "hook", names[0], given)
    answer = _answer_later(request) if waits else _answer(request, _alive_s(), ANSWER_S)
    return _say(answer) if answer else 0


def _request(method: str, harness: str, given: bytes) -> bytes:
    """Two lines: who calls, to which a living daemon says a word at once, and what happened."""
    token = os.environ.get("FLEETTRIO_TOKEN", "")
    shown = token if token.replace("-", "").replace("_", "").isalnum() and len(token) <= 256 else ""
    env = b"\0".join(
        os.fsencode(name) + b"=" + os.fsencode(os.environ[name])[:4096] for name in PASSED_ON if name in os.environ
    )
    hello = f'{{"jsonrpc":"2.0","id":1,"method":"hello","params":{{"token":"{shown}"}}}}\n'
    head = f'{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{{"harness":"{harness}","input":"'
    return b"".join((hello.encode(), head.encode(), _base64(given), b'","env":"', _base64(env), b'"}}\n'))


def _alive_s() -> float:
    try:
        return min(float(os.environ.get("FLEETTRIO_HOOK_ALIVE_S") or ALIVE_S), ANSWER_S)
    except ValueError:
        return ALIVE_S


def _answer(request: bytes, alive_s: float, answer_s: float) -> bytes:
    """The daemon's answer, empty when it has none. Raises OSError when nobody is there, or nobody speaks."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        _connect(connection, request, alive_s)
        buffer, deadline = b"", monotonic() + alive_s
        while buffer.count(b"\n") < 2 and len(buffer) < ANSWER_LIMIT:
            connection.settimeout(max(deadline - monotonic(), 0.001))
            chunk = connection.recv(65_536)
            if not chunk:
                return b""
            if b"\n" not in buffer and b"\n" in chunk:
                deadline = monotonic() + answer_s
            buffer += chunk
        return buffer.split(b"\n")[1]
    finally:
        connection.close()


def _answer_later(request: bytes) -> bytes:
    """The daemon's answer, whenever it comes; empty when the program that started us is gone."""
    parent, pause_s = os.getppid(), AGAIN_S[0]
    while _is_awaited(parent):
        began = monotonic()
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            _connect(connection, request, ANSWER_S)
            answer = _listen(connection, parent)
        except OSError:
            answer = None
        finally:
            connection.close()
        if answer is not None:
            return answer
        pause_s = AGAIN_S[0] if monotonic() - began > AGAIN_S[1] else min(pause_s * 2, AGAIN_S[1])
        sleep(pause_s)
    return b""


def _listen(connection: _socket.socket, parent: int) -> bytes | None:
    """The second line; None when the daemon goes before, empty when our parent does."""
    buffer = b""
    connection.settimeout(LOOK_S)
    while buffer.count(b"\n") < 2 and len(buffer) < ANSWER_LIMIT:
        try:
            chunk = connection.recv(65_536)
        except TimeoutError:
            if not _is_awaited(parent):
                return b""
            continue
        if not chunk:
            return None
        buffer += chunk
    return buffer.split(b"\n")[1]


def _is_awaited(parent: int) -> bool:
    """Whether the program is there that started us, and reads what wakes it."""
    import select  # what does not wait need not have it

    reader = select.poll()
    reader.register(2, 0)
    return os.getppid() == parent and not any(
        events & (select.POLLERR | select.POLLHUP) for _, events in reader.poll(0)
    )


def _connect(connection: _socket.socket, request: bytes, limit_s: float) -> None:
    connection.settimeout(limit_s)
    connection.connect(_socket_path())
    connection.sendall(request)


def _say(answer: bytes) -> int:
    """Print what the daemon said; its exit code."""
    if b'"result":' not in answer:
        return 0
    for name, file in ((b"stdout", 1), (b"stderr", 2)):
        text = a2b_base64(answer.partition(b'"' + name + b'":"')[2].partition(b'"')[0])
        while text:
            text = text[os.write(file, text) :]
    code = answer.partition(b'"code":')[2][:1]
    return int(code) if code in b"02" and code else 0


def _socket_path() -> str:
    """As `fleettrio.home` has it, without the packages that know it."""
    home = os.environ.get("FLEETTRIO_HOME", "")
    if home:
        return os.path.expanduser(home) + "/run/fleettrio.sock"
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/fleettrio/run/fleettrio.sock")
    state = os.environ.get("XDG_STATE_HOME", "").strip() or os.path.expanduser("~/.local/state")
    return state + "/fleettrio/run/fleettrio.sock"


def _read_stdin() -> bytes:
    """All of it. Raises ValueError when that is no end."""
    parts, size = [], 0
    while chunk := os.read(0, 1 << 16):
        size += len(chunk)
        if size > READ_LIMIT:
            raise ValueError("too long")
        parts.append(chunk)
    return b"".join(parts)


def _without_the_largest(given: bytes) -> bytes:
    """As many fields of the JSON object as are passed on together, the largest left out: a tool's result, as a rule.

    Raises ValueError for what is no such object.
    """
    from json import JSONDecoder

    text, at, fields = given.decode(), 0, list[bytes]()
    decode = JSONDecoder().raw_decode
    while text[begin := _behind(" \t\r\n{,", text, at)] != "}":
        _, at = decode(text, begin)
        _, at = decode(text, _behind(" \t\r\n:", text, at))
        fields.append(text[begin:at].encode())
    kept, size = list[bytes](), 1
    for field in sorted(fields, key=len):
        size += len(field) + 1
        if size > INPUT_LIMIT:
            break
        kept.append(field)
    return b"{" + b",".join(kept) + b"}"


def _behind(characters: str, text: str, at: int) -> int:
    while text[at] in characters:
        at += 1
    return at


def _base64(data: bytes) -> bytes:
    return b2a_base64(data, newline=False)


if __name__ == "__main__":
    main()
