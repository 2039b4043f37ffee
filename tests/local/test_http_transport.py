"""Into opencode by its own server: what it answers, what it does not, and what it must never be asked."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
import trio

from fleettrio.errors import ConfigError
from fleettrio.local import http, httpcall
from fleettrio.local.echoes import Echoes
from fleettrio.local.http import HttpTransport, parse_api
from fleettrio.local.port import AgentState, DeliveryOutcome, NotReady, Reserved
from fleettrio.testing.agents.room import until
from fleettrio.testing.opencode_server import OpencodeServer
from fleettrio.testing.transport_case import framed


@pytest.fixture
def server() -> Iterator[OpencodeServer]:
    with OpencodeServer("ses_1") as server:
        yield server


async def reserved_by(via: HttpTransport, when: str = "idle") -> Reserved:
    answer = await via.reserve(when)
    assert isinstance(answer, Reserved), answer
    return answer


async def refused_by(via: HttpTransport, when: str = "idle") -> NotReady:
    answer = await via.reserve(when)
    assert isinstance(answer, NotReady), answer
    return answer


async def test_a_session_that_went_to_work_took_it(server: OpencodeServer) -> None:
    via = HttpTransport(server.url, "ses_1")
    done = await via.deliver(await reserved_by(via), framed())
    assert (done.outcome, done.saw_work) == (DeliveryOutcome.SUBMITTED, True)
    assert server.turns == [framed().framed]
    await via.close()


async def test_the_echo_of_its_prompt_hook_is_evidence_too(server: OpencodeServer) -> None:
    server.deaf = True
    echoes, text = Echoes(), framed()
    via = HttpTransport(server.url, "ses_1", echoes=echoes)
    reserved = await reserved_by(via)

    async def hook() -> None:
        await until("the prompt is there", lambda: "POST /session/ses_1/prompt_async" in server.requests)
        await until("the mark is expected", lambda: echoes.heard(text.framed))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hook)
        done = await via.deliver(reserved, text)
    assert done.outcome is DeliveryOutcome.SUBMITTED
    assert "prompt hook" in done.detail


async def test_now_into_a_running_turn_is_unconfirmed_and_given_once(server: OpencodeServer) -> None:
    server.hold, server.busy = True, {"ses_1": False}
    via = HttpTransport(server.url, "ses_1", turn_s=0.2)
    assert (await refused_by(via)).state is AgentState.WORKING
    done = await via.deliver(await reserved_by(via, "now"), framed())
    assert done.outcome is DeliveryOutcome.UNCONFIRMED
    assert "mid-turn" in done.detail
    assert len(server.queue) == 1
    await via.close()


async def test_a_permission_that_any_session_of_it_waits_for_blocks(server: OpencodeServer) -> None:
    server.asking = ["ses_of_a_subagent"]
    via = HttpTransport(server.url, "ses_1")
    for when in ("idle", "now"):
        assert (await refused_by(via, when)).state is AgentState.BLOCKED
    await via.close()


@pytest.mark.parametrize(("password", "is_in"), [("right", True), ("wrong", False), ("", False)])
async def test_a_server_with_a_password_lets_in_who_knows_it(password: str, is_in: bool) -> None:
    with OpencodeServer("ses_1", password="right") as server:
        via = HttpTransport(server.url, "ses_1", env={http.PASSWORD: password})
        answer = await via.reserve("idle")
        assert isinstance(answer, Reserved) is is_in
        if isinstance(answer, NotReady):
            assert http.PASSWORD in answer.why
            assert answer.gone, "another way is tried"
        await via.close()


@pytest.mark.parametrize(
    ("path", "status", "body", "why"),
    [
        ("/session/status", 200, b"not json", "no JSON"),
        ("/session/status", 200, b"[]", "like no opencode"),
        ("/session/status", 500, b"", "with 500"),
        ("/permission", 302, b"", "with 302"),
        ("/permission", 200, b'"' + b"x" * (httpcall.ANSWER_LIMIT + 1) + b'"', "more than"),
    ],
    ids=["no json", "another shape", "broken", "elsewhere", "flood"],
)
async def test_a_server_that_answers_oddly_is_not_ready_and_not_gone(
    server: OpencodeServer, path: str, status: int, body: bytes, why: str
) -> None:
    server.odd[path] = (status, body)
    via = HttpTransport(server.url, "ses_1")
    answer = await refused_by(via)
    assert (answer.state, answer.gone) == (AgentState.UNKNOWN, False)
    assert why in answer.why
    await via.close()


@pytest.mark.parametrize(
    ("status", "outcome"), [(400, DeliveryOutcome.NOTHING_WRITTEN), (503, DeliveryOutcome.UNCONFIRMED)]
)
async def test_a_refused_prompt_was_not_given_and_a_failed_one_may_have_been(
    server: OpencodeServer, status: int, outcome: DeliveryOutcome
) -> None:
    server.odd["/session/ses_1/prompt_async"] = (status, b"{}")
    via = HttpTransport(server.url, "ses_1")
    done = await via.deliver(await reserved_by(via), framed())
    assert done.outcome is outcome
    assert str(status) in done.detail
    await via.close()


async def test_a_session_that_is_not_there_is_gone(server: OpencodeServer) -> None:
    via = HttpTransport(server.url, "ses_2")
    assert (await refused_by(via)).gone
    assert await via.state() is AgentState.GONE
    await via.close()


@pytest.mark.parametrize(
    "api",
    [
        "http://192.0.2.7:4096/session/ses_1",
        "https://127.0.0.1:4096/session/ses_1",
        "http://127.0.0.1.example.org/session/ses_1",
        "http://user@127.0.0.1:4096/session/ses_1",
        "http://127.0.0.1:4096/session/ses_1/../../tui",
        "http://127.0.0.1:4096/session/a%2Fb",
        "http://127.0.0.1:4096",
        "http://[127.0.0.1",
        "http://127.0.0.1:port/session/ses_1",
        "",
    ],
)
def test_only_a_session_of_a_server_on_this_machine_is_reached(api: str) -> None:
    with pytest.raises(ConfigError):
        HttpTransport(api)


def test_a_session_is_named_apart_or_in_the_address() -> None:
    assert parse_api("http://127.0.0.1:4096/session/ses_1") == ("127.0.0.1", 4096, "ses_1")
    assert parse_api("http://localhost:4096/", "ses_1") == ("localhost", 4096, "ses_1")
    assert parse_api("http://[::1]:4096", "ses_1") == ("::1", 4096, "ses_1")


async def test_a_server_that_does_not_answer_in_time_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpcall, "CALL_LIMIT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        answer = await refused_by(HttpTransport(f"http://127.0.0.1:{port}", "ses_1"))
    assert (answer.state, answer.gone) == (AgentState.UNKNOWN, False)
    assert "within 0.1 s" in answer.why


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", b""])
async def test_a_server_that_speaks_something_else_is_not_ready(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as odd:

        def answer_all() -> None:
            while True:
                try:
                    peer, _ = odd.accept()
                except OSError:
                    return
                with peer, contextlib.suppress(OSError):  # who asked two things at once may be gone after one answer
                    peer.recv(65_536)
                    peer.sendall(said)

        threading.Thread(target=answer_all, daemon=True).start()
        answer = await refused_by(HttpTransport(f"http://127.0.0.1:{odd.getsockname()[1]}", "ses_1"))
        odd.shutdown(socket.SHUT_RDWR)
    assert (answer.state, answer.gone) == (AgentState.UNKNOWN, False)
