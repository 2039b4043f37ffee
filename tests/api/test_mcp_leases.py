"""Which call confirms what: leases, and the requests that were taken back."""

from __future__ import annotations

import json

import pytest
import trio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse

from fleettrio.api.callers import Caller
from fleettrio.api.mcp.leases import Lease, Leases
from fleettrio.api.mcp.wire import MOST_OPEN, Inward, Outward, Request
from fleettrio.api.rpc import Connection


class Desk:
    """What the core is told."""

    def __init__(self) -> None:
        self.confirmed: list[tuple[str, int]] = []
        self.gone: list[str] = []
        self.leases = Leases(Connection(1, 1), self._confirm, self._gone)

    async def _confirm(self, lease: Lease, cursor: int) -> None:
        self.confirmed.append((lease.gid, cursor))

    async def _gone(self, connection: Connection) -> None:
        self.gone.append(connection.session)

    async def call(self, gid: str, cursor: int, upto: int | None = None) -> Lease:
        """A call that was offered something."""
        async with self.leases.session(gid, upto) as lease:
            lease.cursor = cursor
        return lease


async def test_the_next_call_of_the_same_agent_confirms() -> None:
    desk = Desk()
    await desk.call("a", 1)
    await desk.call("b", 2)
    assert desk.confirmed == []
    await desk.call("a", 0)
    await desk.call("a", 0)
    assert desk.confirmed == [("a", 1)]


async def test_calls_at_the_same_time_have_sessions_of_their_own_and_later_ones_share() -> None:
    desk = Desk()
    async with desk.leases.session("a") as one, desk.leases.session("a") as two:
        assert one.connection.session != two.connection.session
        two.cursor = 7
    async with desk.leases.session("a") as three:
        assert three in (one, two)
    assert desk.confirmed == [("a", 7)]


async def test_a_call_that_was_given_up_confirms_nothing_and_what_it_was_offered_waits_again() -> None:
    desk = Desk()
    with trio.CancelScope() as scope:
        async with desk.leases.session("a") as lease:
            lease.cursor = 5
            scope.cancel()
            await trio.lowlevel.checkpoint()
    await desk.call("a", 0)
    assert desk.confirmed == []
    assert desk.gone == [lease.connection.session]


async def test_an_answer_that_nobody_wanted_is_undone_unless_a_later_call_confirmed_it() -> None:
    desk = Desk()
    lease = await desk.call("a", 1)
    await desk.leases.drop(lease, lease.calls)
    await desk.leases.drop(lease, lease.calls)
    again = await desk.call("a", 2)
    number = again.calls
    await desk.call("a", 0)
    await desk.leases.drop(again, number)
    assert desk.confirmed == [("a", 2)]
    assert desk.gone == [lease.connection.session]


async def test_a_cursor_confirms_up_to_itself_and_a_call_that_keeps_confirms_nothing() -> None:
    desk = Desk()
    await desk.call("a", 4)
    await desk.call("a", 6, upto=0)
    await desk.call("a", 6, upto=4)
    await desk.call("a", 0)
    assert desk.confirmed == [("a", 4), ("a", 6)]


async def test_a_client_that_goes_leaves_what_it_did_not_confirm() -> None:
    desk = Desk()
    lease = await desk.call("a", 1)
    await desk.leases.close()
    assert desk.gone == [lease.connection.session]
    assert desk.confirmed == []


class Talk:
    """A connection that was given these lines."""

    def __init__(self, *lines: bytes) -> None:
        self.connection = Connection(1, 1)
        self.given = list(lines)
        self.said: list[dict[str, object]] = []

    def caller(self) -> Caller:
        return Caller()

    async def next(self) -> bytes | None:
        return self.given.pop(0) if self.given else None

    async def send(self, line: bytes) -> None:
        self.said.append(json.loads(line))


def _request(number: int | str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {}}).encode()


async def _read(talk: Talk) -> tuple[list[SessionMessage], Outward]:
    outward = Outward(talk)
    return [message async for message in Inward(talk, outward)], outward


async def test_more_requests_than_fit_are_answered_busy() -> None:
    talk = Talk(*(_request(number) for number in range(MOST_OPEN + 1)))
    messages, outward = await _read(talk)
    assert len(messages) == len(outward.open) == MOST_OPEN
    assert talk.said[0]["id"] == MOST_OPEN
    await outward.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=3, result={})))
    assert 3 not in outward.open


async def test_the_same_id_twice_at_a_time_is_refused() -> None:
    talk = Talk(_request("a"), _request("a"))
    messages, _ = await _read(talk)
    assert len(messages) == 1
    assert "open already" in str(talk.said)


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b'"text"', b'{"jsonrpc":"1.0","id":1,"method":"a"}', b"[" * 100_000, b"1" * 5_000, b"\xff\xfe"],
)
async def test_a_line_that_is_no_message_is_answered_and_the_next_is_read(line: bytes) -> None:
    talk = Talk(line, b"  ", _request(1))
    messages, _ = await _read(talk)
    assert len(messages) == 1
    assert "error" in talk.said[0]


async def test_halves_of_surrogate_pairs_pass_both_ways() -> None:
    talk = Talk(b'{"jsonrpc":"2.0","id":1,"method":"\\ud83d","params":{"a":"\\udc00"}}')
    (message,), outward = await _read(talk)
    assert isinstance(message.message, JSONRPCRequest)
    assert message.message.method == "\ud83d"
    await outward.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={"a": "\ud83d"})))
    assert talk.said == [{"jsonrpc": "2.0", "id": 1, "result": {"a": "\ud83d"}}]


async def test_taking_back_what_was_answered_is_heard_once() -> None:
    heard: list[str] = []

    async def note() -> None:
        heard.append("taken back")

    cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    talk = Talk(_request(1))
    _, outward = await _read(talk)
    request = outward.open[1]
    assert isinstance(request, Request)
    request.on_unanswered.append(note)
    await outward.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={})))
    talk.given = [cancelled, cancelled]
    assert [item.message async for item in Inward(talk, outward)]
    assert heard == ["taken back"]
