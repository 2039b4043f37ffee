"""The local socket under use and abuse, over a real Unix socket with small handlers."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from fleettrio.api import schema
from fleettrio.api.callers import Caller, CallerRules, Process, hash_token
from fleettrio.api.rpc import CallError, Connection, Handler, Limits, serve
from fleettrio.errors import FleetTrioError, ProtocolMisuse, SessionLost

HUMAN = "00000000-0000-4000-8000-000000000001"
OPERATOR = "operator-token"
BOUND_S = 90.0


@pytest.fixture
def path() -> Iterator[pathlib.Path]:
    folder = tempfile.mkdtemp(prefix="ft-", dir="/tmp")  # a socket's path must be short
    yield pathlib.Path(folder) / "run" / "s.sock"
    shutil.rmtree(folder)


def rules(uid: int | None = None) -> CallerRules:
    return CallerRules(
        uid=os.getuid() if uid is None else uid,
        human=HUMAN,
        entities=lambda: (),
        operator_hash=hash_token(OPERATOR),
        read=lambda pid: Process(pid, 0),
    )


async def done(params: Any, caller: Caller, connection: Connection) -> schema.Done:
    return schema.Done("done")


async def hello(params: schema.Hello, caller: Caller, connection: Connection) -> schema.Welcome:
    return schema.Welcome("alpha", "1", caller.name, caller.gid, caller.is_person, caller.problem, connection.pid)


@asynccontextmanager
async def serving(
    path: pathlib.Path,
    methods: dict[str, Handler],
    *,
    limits: Limits | None = None,
    on_close: Callable[[Connection], Awaitable[None]] | None = None,
    callers: CallerRules | None = None,
) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            await serve(path, methods, callers or rules(), limits=limits, on_close=on_close, task_status=task_status)

        await nursery.start(run)
        yield
        nursery.cancel_scope.cancel()


class Peer:
    """A client that sends whatever bytes it likes."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.buffer = b""

    async def ask(self, method: str, params: Any = None, request_id: int = 1) -> None:
        line = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {} if params is None else params}
        await self.stream.send_all(json.dumps(line).encode() + b"\n")

    async def answer(self) -> dict[str, Any]:
        line = await self.line()
        assert line is not None, "the daemon hung up"
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    async def line(self) -> bytes | None:
        with trio.fail_after(BOUND_S):
            while b"\n" not in self.buffer:
                try:
                    chunk = await self.stream.receive_some(1 << 20)
                except trio.BrokenResourceError:  # it hung up without reading all we sent
                    return None
                if not chunk:
                    return None
                self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line


@asynccontextmanager
async def connected(path: pathlib.Path) -> AsyncIterator[Peer]:
    stream = await trio.open_unix_socket(path)
    async with stream:
        yield Peer(stream)


async def test_a_request_is_answered_with_its_id_and_result(path: pathlib.Path) -> None:
    async with serving(path, {"down": done}), connected(path) as peer:
        await peer.ask("down", request_id=7)
        assert await peer.answer() == {"jsonrpc": "2.0", "id": 7, "result": {"detail": "done"}}


async def test_bytes_travel_as_base64_both_ways(path: pathlib.Path) -> None:
    seen: list[bytes] = []

    async def reply(params: schema.Reply, caller: Caller, connection: Connection) -> schema.Body:
        seen.append(params.body)
        return schema.Body("m", params.body, "text")

    async with serving(path, {"reply": reply}), connected(path) as peer:
        await peer.ask("reply", {"re": "@last", "body": "AP8K"})
        answer = await peer.answer()
    assert seen == [b"\x00\xff\n"]
    assert answer["result"]["body"] == "AP8K"


async def test_a_body_of_one_mebibyte_goes_through(path: pathlib.Path) -> None:
    sizes: list[int] = []

    async def reply(params: schema.Reply, caller: Caller, connection: Connection) -> schema.Done:
        sizes.append(len(params.body))
        return schema.Done()

    async with serving(path, {"reply": reply}), connected(path) as peer:
        await peer.ask("reply", {"re": "x", "body": "AAAA" * (1024 * 1024 // 3 + 1)})
        assert "result" in await peer.answer()
    assert sizes[0] >= 1024 * 1024


async def test_a_slow_request_does_not_hold_up_a_quick_one_of_the_same_client(path: pathlib.Path) -> None:
    release = trio.Event()

    async def slow(params: Any, caller: Caller, connection: Connection) -> schema.Done:
        await release.wait()
        return schema.Done("slow")

    async with serving(path, {"wait": slow, "down": done}), connected(path) as peer:
        await peer.ask("wait", {"ids": []}, request_id=1)
        await peer.ask("down", request_id=2)
        assert (await peer.answer())["id"] == 2
        release.set()
        assert (await peer.answer())["id"] == 1


@pytest.mark.parametrize(
    ("problem", "reason", "hint", "exit_code"),
    [
        (CallError(2, "no-such-agent", "no agent worm", "did you mean worker?"), "no-such-agent", "did you mean", 2),
        (SessionLost("the link broke"), "broker-unreachable", "status", 8),
        (FleetTrioError("disk full"), "failed", "doctor", 3),
    ],
)
async def test_an_expected_failure_becomes_an_answer_that_says_what_to_do(
    path: pathlib.Path, problem: FleetTrioError, reason: str, hint: str, exit_code: int
) -> None:
    async def failing(params: Any, caller: Caller, connection: Connection) -> schema.Done:
        raise problem

    async with serving(path, {"down": failing}), connected(path) as peer:
        await peer.ask("down")
        error = (await peer.answer())["error"]
    assert error["message"] == str(problem)
    assert error["data"]["reason"] == reason
    assert hint in error["data"]["hint"]
    assert error["data"]["exit"] == exit_code


@pytest.mark.parametrize("problem", [ProtocolMisuse("secret"), ZeroDivisionError("secret"), RuntimeError("secret")])
async def test_a_bug_costs_its_request_and_is_in_the_log_and_the_daemon_goes_on(
    path: pathlib.Path, problem: Exception
) -> None:
    async def buggy(params: Any, caller: Caller, connection: Connection) -> schema.Done:
        raise problem

    with capture_logs() as lines:
        async with serving(path, {"down": buggy, "doctor": done}), connected(path) as peer:
            await peer.ask("down", request_id=3)
            answer = await peer.answer()
            await peer.ask("doctor", request_id=4)
            assert (await peer.answer())["result"] == {"detail": "done"}
    data = answer["error"]["data"]
    assert (answer["id"], data["reason"], data["exit"]) == (3, "internal-error", 3)
    assert "log" in data["hint"]
    assert "secret" not in json.dumps(answer)
    assert [(line["event"], line["method"], line["exc_info"]) for line in lines] == [("internal error", "down", True)]


async def test_a_bug_at_the_end_of_a_connection_is_survived_too(path: pathlib.Path) -> None:
    closed = trio.Event()

    async def on_close(connection: Connection) -> None:
        closed.set()
        raise ZeroDivisionError

    async with serving(path, {"down": done}, on_close=on_close):
        async with connected(path) as peer:
            await peer.ask("down")
            await peer.answer()
        with trio.fail_after(BOUND_S):
            await closed.wait()
        async with connected(path) as peer:
            await peer.ask("down")
            assert "result" in await peer.answer()


@pytest.mark.parametrize(
    ("method", "params", "word"),
    [
        ("attach", {"pid": 2**63}, "pid"),
        ("attach", {"pid": -1}, "pid"),
        ("attach", {"name": "x" * 300}, "name"),
        ("attach", {"command": ["x" * 5000]}, "command"),
        ("send", {"to": ["a"] * 101, "body": ""}, "to"),
        ("send", {"to": ["a"], "body": "", "when": "never"}, "when"),
        ("wait", {"ids": [], "limit_s": -1}, "limit_s"),
        ("pull", {"wait_s": -1}, "wait_s"),
        ("pull", {"limit": 0}, "limit"),
        ("inbox", {"limit": 2**70}, "limit"),
    ],
)
async def test_a_parameter_out_of_bounds_is_named(
    path: pathlib.Path, method: str, params: dict[str, Any], word: str
) -> None:
    async with serving(path, {method: done}), connected(path) as peer:
        await peer.ask(method, params)
        error = (await peer.answer())["error"]
    assert error["message"].startswith(f"{method}: {word}")
    assert (error["code"], error["data"]["exit"]) == (-32602, 2)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b"this is not json", -32700, "not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"down"', -32700, "not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"do\xff\xfewn"}', -32700, "not JSON"),
        (b"[" * 100_000, -32600, "batches"),
        (b'{"a":' * 100_000, -32600, "not a JSON-RPC request"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"down"}]', -32600, "batches"),
        (b'{"id":1,"method":"down"}', -32600, "jsonrpc"),
        (b'{"jsonrpc":"1.0","id":1,"method":"down"}', -32600, "2.0"),
        (b'{"jsonrpc":"2.0","id":1,"method":"down","more":1}', -32600, "more"),
        (b'{"jsonrpc":"2.0","id":1,"method":"dwn"}', -32601, "dwn"),
        (b'{"jsonrpc":"2.0","id":1,"method":"show","params":{}}', -32602, "id"),
        (b'{"jsonrpc":"2.0","id":1,"method":"show","params":{"id":5}}', -32602, "id"),
        (b'{"jsonrpc":"2.0","id":1,"method":"show","params":{"id":"x","extra":1}}', -32602, "extra"),
        (b'{"jsonrpc":"2.0","id":1,"method":"show","params":[]}', -32602, "show"),
        (b'{"jsonrpc":"2.0","id":1,"method":"reply","params":{"re":"x","body":"%%"}}', -32602, "body"),
        (b'{"jsonrpc":"2.0","id":1,"method":"show","params":{"id":' + b"[" * 100_000, -32700, "not JSON"),
    ],
)
async def test_a_bad_request_costs_one_answer_and_the_next_one_works(
    path: pathlib.Path, line: bytes, code: int, words: str
) -> None:
    async with serving(path, {"down": done, "show": done, "reply": done}), connected(path) as peer:
        await peer.stream.send_all(line + b"\n")
        error = (await peer.answer())["error"]
        assert error["code"] == code
        assert words in error["message"]
        assert error["data"]["hint"]
        assert error["data"]["exit"] == 2
        await peer.ask("down", request_id=9)
        assert (await peer.answer())["id"] == 9


async def test_a_near_miss_of_a_method_is_named(path: pathlib.Path) -> None:
    async with serving(path, {"down": done}), connected(path) as peer:
        await peer.ask("statsu")
        assert "status" in (await peer.answer())["error"]["data"]["hint"]


async def test_a_notification_is_carried_out_and_not_answered(path: pathlib.Path) -> None:
    ran = trio.Event()

    async def noted(params: Any, caller: Caller, connection: Connection) -> schema.Done:
        ran.set()
        return schema.Done()

    async with serving(path, {"down": noted, "doctor": done}), connected(path) as peer:
        await peer.stream.send_all(b'{"jsonrpc":"2.0","method":"down"}\n\n')
        with trio.fail_after(BOUND_S):
            await ran.wait()
        await peer.ask("doctor", request_id=2)
        assert (await peer.answer())["id"] == 2


async def test_a_line_without_end_is_answered_and_the_client_let_go_others_go_on(path: pathlib.Path) -> None:
    limits = Limits(line_bytes=100_000)
    async with serving(path, {"down": done}, limits=limits), connected(path) as other:
        async with connected(path) as peer:
            await peer.stream.send_all(b"x" * 200_000)
            error = (await peer.answer())["error"]
            assert "100000 bytes" in error["message"]
            assert await peer.line() is None
        await other.ask("down")
        assert "result" in await other.answer()


async def test_too_many_open_requests_are_told_when_to_come_back(path: pathlib.Path) -> None:
    release = trio.Event()

    async def slow(params: Any, caller: Caller, connection: Connection) -> schema.Done:
        await release.wait()
        return schema.Done()

    async with serving(path, {"down": slow}, limits=Limits(in_flight=4)), connected(path) as peer:
        for number in range(5):
            await peer.ask("down", request_id=number)
        refused = await peer.answer()
        assert refused["id"] == 4
        assert refused["error"]["data"]["reason"] == "busy"
        assert refused["error"]["data"]["retry_ms"] > 0
        assert "try again" in refused["error"]["data"]["hint"]
        release.set()
        assert {(await peer.answer())["id"] for _ in range(4)} == {0, 1, 2, 3}
        await peer.ask("down", request_id=5)
        assert "result" in await peer.answer()


async def test_too_many_clients_are_told_when_to_come_back(path: pathlib.Path) -> None:
    async with serving(path, {"down": done}, limits=Limits(connections=2)):
        async with connected(path) as one, connected(path) as two:
            for peer in (one, two):
                await peer.ask("down")
                await peer.answer()
            async with connected(path) as three:
                assert (await three.answer())["error"]["data"]["reason"] == "busy"
                assert await three.line() is None
        with trio.fail_after(BOUND_S):
            while True:  # the daemon notices that the others left in its own time
                async with connected(path) as four:
                    await four.ask("down")
                    if "result" in await four.answer():
                        break


async def test_a_client_that_reads_nothing_is_dropped_and_holds_nobody_up(path: pathlib.Path) -> None:
    closed = trio.Event()

    async def large(params: Any, caller: Caller, connection: Connection) -> schema.Body:
        return schema.Body("m", b"x" * 500_000, "")

    async def on_close(connection: Connection) -> None:
        closed.set()

    limits = Limits(write_s=0.3, outbox=2)
    async with (
        serving(path, {"body": large, "down": done}, limits=limits, on_close=on_close),
        connected(path) as stuck,
        connected(path) as other,
    ):
        for number in range(20):
            await stuck.ask("body", {"id": "x"}, request_id=number)
        await other.ask("down")
        assert "result" in await other.answer()
        with trio.fail_after(BOUND_S):
            await closed.wait()
        await other.ask("down")
        assert "result" in await other.answer()


async def test_when_a_client_goes_its_requests_are_cancelled_and_then_its_end_is_told(path: pathlib.Path) -> None:
    events: list[str] = []
    waiting, closed = trio.Event(), trio.Event()

    async def slow(params: Any, caller: Caller, connection: Connection) -> schema.Done:
        waiting.set()
        try:
            await trio.sleep_forever()
        finally:
            events.append(f"cancelled {connection.session}")
        raise AssertionError

    async def on_close(connection: Connection) -> None:
        await trio.lowlevel.checkpoint()
        events.append(f"closed {connection.session}")
        closed.set()

    async with serving(path, {"down": slow}, on_close=on_close):
        async with connected(path) as peer:
            await peer.ask("down")
            with trio.fail_after(BOUND_S):
                await waiting.wait()
        with trio.fail_after(BOUND_S):
            await closed.wait()
    assert [event.split()[0] for event in events] == ["cancelled", "closed"]
    assert events[0].split()[1] == events[1].split()[1]


async def test_offers_go_back_at_shutdown_too(path: pathlib.Path) -> None:
    closed: list[str] = []

    async def on_close(connection: Connection) -> None:
        await trio.lowlevel.checkpoint()
        closed.append(connection.session)

    async with connected_after_serving(path, on_close) as peer:
        await peer.ask("down")
        await peer.answer()
    assert len(closed) == 1


@asynccontextmanager
async def connected_after_serving(
    path: pathlib.Path, on_close: Callable[[Connection], Awaitable[None]]
) -> AsyncIterator[Peer]:
    """The client stays connected while the daemon ends."""
    async with serving(path, {"down": done}, on_close=on_close):
        peer = Peer(await trio.open_unix_socket(path))
        yield peer
    assert await peer.line() is None
    await peer.stream.aclose()


async def test_the_kernel_says_who_connects_and_hello_brings_the_token(path: pathlib.Path) -> None:
    async with serving(path, {"hello": hello}), connected(path) as peer:
        await peer.ask("hello")
        nobody = (await peer.answer())["result"]
        assert nobody["pid"] == os.getpid()
        assert "token" in nobody["caller_problem"]
        await peer.ask("hello", {"token": OPERATOR})
        person = (await peer.answer())["result"]
        assert (person["caller"], person["is_person"], person["gid"]) == ("human", True, HUMAN)


async def test_hello_counts_for_what_comes_with_it_in_one_piece_and_is_answered_first(path: pathlib.Path) -> None:
    """Trio starts tasks in any order: twenty clients, so that none has luck."""
    callers: list[str] = []

    async def down(params: schema.Empty, caller: Caller, connection: Connection) -> schema.Done:
        callers.append(caller.name)
        return schema.Done("done")

    said = [{"id": 1, "method": "hello", "params": {"token": OPERATOR}}, {"id": 2, "method": "down", "params": {}}]
    piece = b"".join(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in said)
    async with serving(path, {"hello": hello, "down": down}):
        for _ in range(20):
            async with connected(path) as peer:
                await peer.stream.send_all(piece)
                assert [(await peer.answer())["id"] for _ in said] == [1, 2]
    assert callers == ["human"] * 20


async def test_another_users_process_has_no_identity(path: pathlib.Path) -> None:
    async with serving(path, {"hello": hello}, callers=rules(uid=os.getuid() + 1)), connected(path) as peer:
        await peer.ask("hello", {"token": OPERATOR})
        welcome = (await peer.answer())["result"]
        assert welcome["caller"] == ""
        assert f"user {os.getuid()}" in welcome["caller_problem"]


async def test_folder_and_socket_are_their_owners_alone_and_the_socket_goes_with_the_daemon(path: pathlib.Path) -> None:
    path.parent.mkdir(mode=0o755)
    async with serving(path, {}):
        assert mode_of(path) == 0o600
        assert mode_of(path.parent) == 0o700
    assert not is_there(path)


def is_there(path: pathlib.Path) -> bool:
    return path.is_socket()


def mode_of(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_socket_left_behind_is_replaced(path: pathlib.Path) -> None:
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serving(path, {"down": done}), connected(path) as peer:
        await peer.ask("down")
        assert "result" in await peer.answer()


async def test_a_socket_on_which_a_daemon_answers_is_left_alone(path: pathlib.Path) -> None:
    async with serving(path, {"down": done}):
        with pytest.raises(FleetTrioError, match="another fleettrio daemon answers"):
            await serve(path, {}, rules())
        async with connected(path) as peer:
            await peer.ask("down")
            assert "result" in await peer.answer()


def test_a_file_in_the_way_is_left_alone(path: pathlib.Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_text("precious")
    with pytest.raises(FleetTrioError, match="in the way"):
        trio.run(serve, path, {}, rules())
    assert path.read_text() == "precious"


async def test_a_folder_that_is_a_link_is_refused(path: pathlib.Path) -> None:
    target = path.parent.parent / "elsewhere"
    target.mkdir()
    path.parent.symlink_to(target)
    with pytest.raises(FleetTrioError, match="not a folder of this user"):
        await serve(path, {}, rules())
