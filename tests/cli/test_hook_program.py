"""The hook that harnesses run: small, quick to give up, and never in the way."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleettrio.clients import hook
from fleettrio.errors import ConfigError
from fleettrio.home import resolve_paths
from fleettrio.testing.hosts import clean_environment
from fleettrio.testing.waiting import wait_until

TRIES = 10
"""A machine that is busy with other things may hold up any one process."""
SURROGATES = b'{"hook_event_name":"UserPromptSubmit","prompt":"\\ud800 lone","session_id":"s"}'


@pytest.fixture
def home() -> Iterator[Path]:
    # A short path: the socket below it must fit into 100 bytes.
    folder = Path(tempfile.mkdtemp(prefix="ft-"))
    (folder / "run").mkdir()
    yield folder
    shutil.rmtree(folder)


class Daemon:
    """Something that listens where the daemon would, and answers what it is told to after `late_s`, or nothing."""

    def __init__(self, home: Path, *answers: bytes, closes: bool = False, late_s: float = 0.0) -> None:
        self.got: list[bytes] = []
        self._answers, self._closes, self._late_s = answers, closes, late_s
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(home / "run" / "fleettrio.sock"))
        self._listener.listen()
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._clients.append(client)
            if self._closes:
                client.close()
                continue
            if not self._answers:
                continue
            with contextlib.suppress(OSError):  # a hook that is gone already
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        data = b""
        while data.count(b"\n") < 2 and (chunk := client.recv(65_536)):
            data += chunk
        self.got += data.splitlines()
        threading.Event().wait(self._late_s)
        for answer in self._answers:
            client.sendall(answer + b"\n")

    def close(self) -> None:
        for one in (self._listener, *self._clients):
            one.close()


def run(home: Path, *arguments: str, given: bytes = b"{}", **env: str) -> tuple[int, bytes, bytes, float]:
    """With patience for a daemon that is slow here, unless `env` says otherwise."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fleettrio.clients.hook", *arguments],
        input=given,
        env={**clean_environment(), "FLEETTRIO_HOME": str(home), "FLEETTRIO_HOOK_ALIVE_S": "20", **env},
        capture_output=True,
        timeout=90,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began


def answer(stdout: bytes = b"", stderr: bytes = b"", code: int = 0) -> bytes:
    result = {"stdout": base64.b64encode(stdout).decode(), "stderr": base64.b64encode(stderr).decode(), "code": code}
    return json.dumps({"id": 2, "result": result, "jsonrpc": "2.0"}, separators=(",", ":")).encode()


HELLO = b'{"id":1,"result":{"host":"alpha"},"jsonrpc":"2.0"}'


def test_it_loads_nothing_but_what_the_interpreter_has_anyway_and_its_socket() -> None:
    def modules(code: str) -> set[str]:
        out = subprocess.run(
            [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
            env=clean_environment(),
            capture_output=True,
            check=True,
        )
        return set(out.stdout.decode().split())

    more = modules("import fleettrio.clients.hook") - modules("pass")
    assert more <= {"__future__", "_socket", "binascii", "fleettrio", "fleettrio.clients", "fleettrio.clients.hook"}


@pytest.mark.parametrize("given", [b"{}", b"", b"not json", SURROGATES, b"[1]", b"x" * 200_000, b"x" * 3_000_000])
def test_without_a_daemon_it_prints_nothing_and_ends_well(home: Path, given: bytes) -> None:
    assert run(home, "claude", given=given)[:3] == (0, b"", b"")


@pytest.mark.parametrize("given", [b"{}", b"x" * 900_000])
def test_a_deaf_daemon_is_given_up_soon(home: Path, given: bytes) -> None:
    daemon = Daemon(home)
    more = []
    for _ in range(TRIES):
        bare = run(home)[3]  # what starting it costs on this machine now
        code, out, err, spent = run(home, "claude", given=given, FLEETTRIO_HOOK_ALIVE_S="")
        assert (code, out, err) == (0, b"", b"")
        more.append(spent - bare)
        if more[-1] < 0.3:
            break
    daemon.close()

    assert min(more) < 0.3


@pytest.mark.parametrize(("patience", "printed"), [("20", b"here I am"), ("", b""), ("much", b"")])
def test_on_a_busy_machine_it_has_the_patience_that_it_is_told_to_have(
    home: Path, patience: str, printed: bytes
) -> None:
    daemon = Daemon(home, HELLO, answer(b"here I am"), late_s=1.0)
    assert run(home, "claude", FLEETTRIO_HOOK_ALIVE_S=patience)[:2] == (0, printed)
    daemon.close()


@pytest.mark.parametrize(
    "answers",
    [
        (b"", b""),
        (b"?", b"?"),
        (HELLO, b'{"id":2,"error":{"code":-32000,"message":"too busy"}}'),
        (HELLO, b'{"id":2,"result":{"stdout":"!!","stderr":"","code":0}}'),
        (HELLO, b'{"id":2,"result":{"stdout":"","stderr":"","code":7}}'),
        (HELLO, b'{"id":2,"result":{}}'),
    ],
)
def test_an_answer_that_it_cannot_read_is_no_answer(home: Path, answers: tuple[bytes, ...]) -> None:
    daemon = Daemon(home, *answers)
    assert run(home, "claude")[:3] == (0, b"", b"")
    daemon.close()


def test_a_daemon_that_hangs_up_is_no_daemon(home: Path) -> None:
    daemon = Daemon(home, closes=True)
    assert run(home, "claude")[:3] == (0, b"", b"")
    daemon.close()


def test_it_passes_on_what_it_was_given_and_prints_what_it_is_told(home: Path) -> None:
    daemon = Daemon(home, HELLO, answer("grüße\n".encode(), b"why", 2))
    more = {"TMUX_PANE": "%3", "CLAUDE_PID": "77", "FLEETTRIO_TOKEN": "ab12", "OTHER": "secret"}
    code, out, err, _ = run(home, "claude", given=SURROGATES, **more)
    daemon.close()

    assert (code, out, err) == (2, "grüße\n".encode(), b"why")
    hello, told = map(json.loads, daemon.got)
    assert (hello["method"], hello["params"]) == ("hello", {"token": "ab12"})
    assert (told["method"], told["params"]["harness"]) == ("hook", "claude")
    assert base64.b64decode(told["params"]["input"]) == SURROGATES
    assert base64.b64decode(told["params"]["env"]).split(b"\0") == [b"TMUX_PANE=%3", b"CLAUDE_PID=77"]


@pytest.mark.parametrize("size", [1_100_000, 6_000_000])
def test_of_an_input_that_is_too_long_all_but_the_largest_fields_are_passed_on(home: Path, size: int) -> None:
    daemon = Daemon(home, HELLO, answer(b"go on"))
    small = {"hook_event_name": "PostToolUse", "session_id": "s", "cwd": "/räume", "tool_input": {"a": [1, "}"]}}
    large = {"tool_response": {"stdout": 'he said "\n' * (size // 10)}, **small, "agent_id": None}
    indented = json.dumps(large, ensure_ascii=False, indent=1).encode()
    assert run(home, "claude", given=indented)[:2] == (0, b"go on")
    daemon.close()

    told = json.loads(base64.b64decode(json.loads(daemon.got[1])["params"]["input"]))
    assert told == {**small, "agent_id": None}


@pytest.mark.parametrize("given", [b"{" * 2_000_000, b'{"a":' * 400_000, b"[" * 2_000_000, b"x" * 20_000_000])
def test_what_is_too_long_and_cannot_be_read_is_not_passed_on(home: Path, given: bytes) -> None:
    daemon = Daemon(home, HELLO, answer(b"never"))
    assert run(home, "claude", given=given)[:3] == (0, b"", b"")
    daemon.close()
    assert not daemon.got


def test_a_token_that_is_none_is_not_passed_on(home: Path) -> None:
    daemon = Daemon(home, HELLO, answer())
    run(home, "claude", FLEETTRIO_TOKEN='"},{"')
    daemon.close()
    assert json.loads(daemon.got[0])["params"] == {"token": ""}


def test_a_waiting_hook_finds_the_daemon_that_comes_later(home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "fleettrio.clients.hook", "wait", "claude"],
        env={**clean_environment(), "FLEETTRIO_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    first = Daemon(home, HELLO)
    wait_until("it called", lambda: len(first.got) > 1)
    first.close()
    (home / "run" / "fleettrio.sock").unlink()
    second = Daemon(home, HELLO, answer(stderr=b"rise", code=2))
    out, err = process.communicate(timeout=90)
    second.close()

    assert json.loads(first.got[1])["method"] == "hook.wait"
    assert (process.returncode, out, err) == (2, b"", b"rise")


def test_a_waiting_hook_leaves_with_the_program_that_started_it(home: Path) -> None:
    daemon = Daemon(home, HELLO)
    program = f"{sys.executable} -P -m fleettrio.clients.hook wait claude"
    parent = subprocess.Popen(
        ["/bin/sh", "-c", f"{program} </dev/null & echo $!; read _"],
        env={**clean_environment(), "FLEETTRIO_HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    wait_until("it called", lambda: daemon.got)
    parent.kill()
    parent.communicate()
    wait_until("it is gone", lambda: not _is_there(pid))
    daemon.close()


def test_a_waiting_hook_leaves_when_nobody_reads_it_any_more_although_a_shell_is_in_between(home: Path) -> None:
    daemon = Daemon(home, HELLO)
    program = f"{sys.executable} -P -m fleettrio.clients.hook wait claude"
    shell = subprocess.Popen(
        ["/bin/sh", "-c", f"{program} & echo $!; wait"],
        env={**clean_environment(), "FLEETTRIO_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert shell.stdout is not None
    assert shell.stderr is not None
    pid = int(shell.stdout.readline())
    wait_until("it called", lambda: daemon.got)
    assert _is_there(pid)
    shell.stderr.close()  # as when the harness dies that had started the shell
    shell.stdout.close()
    wait_until("it is gone", lambda: not _is_there(pid))
    assert shell.wait(90) == 0
    daemon.close()


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    "env", [{"FLEETTRIO_HOME": "/tmp/somewhere"}, {"HOME": "/tmp/h"}, {"XDG_STATE_HOME": "/tmp/s"}]
)
def test_it_knows_where_the_daemon_is(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLEETTRIO_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    try:
        expected = str(resolve_paths(os.environ).socket)
    except ConfigError:
        pytest.fail("paths that work")
    assert hook._socket_path() == expected


def test_a_wrong_call_says_how_it_is_called_and_ends_well(home: Path) -> None:
    code, out, err, _ = run(home, "claude", "codex")
    assert (code, out) == (0, b"")
    assert err.startswith(b"usage: fleettrio-hook")
