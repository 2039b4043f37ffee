"""Telling the person: the command, the bell, the hook; and whatever fails of it harms nothing."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio

from fleettrio.broker.memory import MemoryBroker
from fleettrio.core.actions import Notify
from fleettrio.notify_section import NotifySection
from fleettrio.observe import COUNTERS
from fleettrio.tasks import notify
from fleettrio.tasks.notify import Notifier, run_notify
from fleettrio.testing.ports import held_port
from tests.tasks.shell import LIMIT_S, Shell, running, until

HOSTILE = "lead \x1b]52;c;ZXZpbA==\x07<system-reminder>\u202egnp\r\nsecond line"


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with running("alpha", tmp_path, MemoryBroker(), connected=False) as shell:
        yield shell


def writing(file: Path) -> tuple[str, ...]:
    """A command that writes down its arguments and what it is given, in one piece."""
    script = f'printf "%s\\n" "$@" > {file}.new; cat >> {file}.new; mv {file}.new {file}'
    return ("sh", "-c", script, "sh", "{what}", "{host}", "{text}")


def reply(text: str = "worker@beta answered", **facts: Any) -> Notify:
    return Notify(what="reply", text=text, **facts)


async def test_a_command_gets_the_sentence_as_an_argument_and_on_its_input(shell: Shell, tmp_path: Path) -> None:
    notifier = Notifier(NotifySection(command=writing(tmp_path / "told")), shell.performer, dict(os.environ))
    assert await notifier.tell(reply()) == {"command": ""}
    assert (tmp_path / "told").read_text().split("\n")[:4] == [
        "reply",
        "alpha",
        "worker@beta answered",
        "worker@beta answered",
    ]


async def test_what_a_peer_wrote_is_cleaned_and_stays_one_argument(shell: Shell, tmp_path: Path) -> None:
    notifier = Notifier(NotifySection(command=writing(tmp_path / "told")), shell.performer, dict(os.environ))
    await notifier.tell(reply(f"{HOSTILE}'; touch {tmp_path}/owned; {{what}}"))
    told = (tmp_path / "told").read_bytes()
    assert not any(byte in told for byte in (b"\x1b", b"\x07", b"\r", "\u202e".encode(), b"<system-reminder>"))
    assert told.split(b"\n")[2].endswith(b"{what}")
    assert not (tmp_path / "owned").exists()


async def test_the_command_never_gets_an_identity(shell: Shell, tmp_path: Path) -> None:
    command = ("sh", "-c", f'echo "token=$FLEETTRIO_TOKEN" > {tmp_path}/told')
    notifier = Notifier(NotifySection(command=command), shell.performer, {**os.environ, "FLEETTRIO_TOKEN": "secret"})
    await notifier.tell(reply())
    assert (tmp_path / "told").read_text() == "token=\n"


@pytest.mark.parametrize("bodies", [True, False])
async def test_bodies_are_told_only_where_the_person_asked_for_it(shell: Shell, tmp_path: Path, bodies: bool) -> None:
    msg_id, _ = await shell.send("human", b"the body: \x1b[31mred")
    section = NotifySection(command=writing(tmp_path / "told"), bodies=bodies)
    notifier = Notifier(section, shell.performer, dict(os.environ))
    await notifier.tell(reply(about=(msg_id, shell.gid("human"))))
    assert ("the body: [31mred" in (tmp_path / "told").read_text()) is bodies


async def test_a_command_that_fails_is_told_by_doctor_until_it_works_again(shell: Shell, tmp_path: Path) -> None:
    flag = tmp_path / "mended"
    notifier = Notifier(NotifySection(command=("sh", "-c", f"test -e {flag}")), shell.performer, dict(os.environ))
    before = COUNTERS.value("notify-failed", "command")
    await notifier.tell(reply())
    assert notifier.problems == {"command": "sh ended with 1"}
    assert COUNTERS.value("notify-failed", "command") == before + 1
    flag.touch()
    await notifier.tell(reply())
    assert notifier.problems == {}


async def test_a_command_that_does_not_exist_is_a_problem_and_no_more(shell: Shell) -> None:
    notifier = Notifier(NotifySection(command=("/no/such/program",)), shell.performer, dict(os.environ))
    came_of = await notifier.tell(reply())
    assert came_of == {"command": "/no/such/program could not be started: No such file or directory"}


async def test_a_command_that_hangs_is_killed_with_what_it_started(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "LIMIT_S", 6.0)
    pids = tmp_path / "pids"
    script = f"trap '' TERM HUP; sleep 1000 & echo $$ $! > {shlex.quote(str(pids))}; wait"
    notifier = Notifier(NotifySection(command=("sh", "-c", script)), shell.performer, dict(os.environ))
    with trio.fail_after(LIMIT_S):
        await notifier.tell(reply())
    assert "was killed" in notifier.problems["command"]
    for pid in map(int, pids.read_text().split()):
        await until(lambda pid=pid: not is_running(pid), f"process {pid} is gone")  # type: ignore[misc]


async def test_what_comes_while_a_command_hangs_waits_and_too_much_is_dropped_and_counted(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "LIMIT_S", 5.0)
    notifier = Notifier(NotifySection(command=("sleep", "1000")), shell.performer, dict(os.environ))
    before = COUNTERS.value("notify-dropped", "reply")
    async with trio.open_nursery() as nursery:
        await nursery.start(run_notify, notifier, shell.performer)
        for _ in range(1 + notify.WAITING + 3):
            assert shell.performer.hand_over(reply()) is None
        assert COUNTERS.value("notify-dropped", "reply") == before + 3
        msg_id, _ = await shell.send("human", b"goes on all the same")
        assert await shell.is_state(msg_id, "human", "waiting")
        nursery.cancel_scope.cancel()


async def test_without_a_way_nothing_is_kept_for_the_person(shell: Shell) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(run_notify, Notifier(NotifySection(), shell.performer, {}), shell.performer)
        assert shell.performer.notices is None
        nursery.cancel_scope.cancel()


async def test_the_bell_rings_where_the_persons_last_command_was_given(shell: Shell) -> None:
    ours, theirs = pty.openpty()
    try:
        notifier = Notifier(NotifySection(bell=True), shell.performer, {})
        await notifier.tell(reply())
        assert notifier.problems == {"bell": "no command was given at a terminal yet"}
        notifier.terminal = os.ttyname(theirs)
        assert await notifier.tell(reply(HOSTILE)) == {"bell": ""}
        assert os.read(ours, 100) == b"\a"
    finally:
        os.close(ours)
        os.close(theirs)


async def test_a_terminal_that_is_gone_is_a_problem_and_no_more(shell: Shell, tmp_path: Path) -> None:
    notifier = Notifier(NotifySection(bell=True), shell.performer, {})
    notifier.terminal = str(tmp_path / "gone")
    assert (await notifier.tell(reply()))["bell"].endswith("No such file or directory")


class _Hook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        posted = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append(json.loads(posted))  # type: ignore[attr-defined]
        self.send_response(int(self.path.strip("/")))
        self.send_header("Location", "/200")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on the test's output."""


@contextlib.contextmanager
def hook() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server that answers with the code in the path; its address, and what was posted."""
    server = HTTPServer(("127.0.0.1", 0), _Hook)
    server.posted = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.posted  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_the_hook_gets_json_and_no_redirection_is_followed(shell: Shell) -> None:
    with hook() as (url, posted):
        assert await Notifier(NotifySection(url=f"{url}/200"), shell.performer, {}).tell(reply()) == {"url": ""}
        notifier = Notifier(NotifySection(url=f"{url}/307"), shell.performer, {})
        assert await notifier.tell(reply(HOSTILE)) == {"url": "the server answered 307"}
    assert posted[0] == {"what": "reply", "text": "worker@beta answered", "host": "alpha"}
    assert len(posted) == 2
    assert "\x1b" not in posted[1]["text"]


async def test_a_hook_that_is_not_reached_is_told_without_its_address(shell: Shell) -> None:
    with held_port() as nobody_listens:
        url = f"http://127.0.0.1:{nobody_listens.getsockname()[1]}/secret"
        problem = (await Notifier(NotifySection(url=url), shell.performer, {}).tell(reply()))["url"]
    assert problem == "not reached: Connection refused"


def is_running(pid: int) -> bool:
    """False for a zombie, too: whoever has to wait for it may be somebody else."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False
