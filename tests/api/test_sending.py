"""Many messages at once: in one call, or in lines that are read together."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import pytest

from fleettrio.api import jsonrpc, schema
from fleettrio.api.callers import Caller
from fleettrio.api.messages import Messages
from fleettrio.api.rpc import Asked, CallError, Connection
from fleettrio.broker.memory import MemoryBroker
from fleettrio.errors import FleetTrioError
from fleettrio.ids import Gid, MsgId
from tests.core.builders import agent
from tests.tasks.shell import Shell, running, until

HERE = Connection(pid=1, uid=0)
AGENTS = [agent(name, "alpha", takes="pull", transport="pull") for name in ("lead", "worker")]
FAR = [agent("worker", "beta")]


def who(shell: Shell, name: str) -> Caller:
    return Caller(shell.gid(name), name, name == "human")


async def many(shell: Shell, *sends: schema.Send, sender: str = "human") -> list[schema.Sent]:
    asked = schema.SendMany(list(sends))
    return (await Messages(shell.performer).sending.send_many(asked, who(shell, sender), HERE)).results


def states(sent: list[schema.Sent]) -> list[str]:
    return [word.state for each in sent for word in each.messages]


async def test_many_messages_in_one_call_reach_another_host_in_their_order(tmp_path: Path) -> None:
    memory = MemoryBroker()
    async with running("beta", tmp_path, memory, FAR) as beta, running("alpha", tmp_path, memory) as alpha:
        await until(lambda: alpha.gateway.roster.others, "who lives on beta")
        bodies = [b"number %d" % number for number in range(100)]
        sent = await many(alpha, *[schema.Send(to=["worker@beta"], body=body) for body in bodies])
        assert not any(each.error for each in sent)
        assert set(states(sent)) <= {"waiting", "injected"}
        ids = [word.msg_id for each in sent for word in each.messages]
        assert ids == sorted(set(ids))
        listed = await Messages(alpha.performer).inbox(schema.Inbox(sent=True, limit=100), who(alpha, "human"), HERE)
        assert [view.msg_id for view in listed.messages] == ids[::-1]
        pane = beta.panes[beta.gid("worker")]
        await until(lambda: len(pane.texts) == 100, "all texts")
        shown = [text.framed for text in pane.texts]
        assert all(f"number {number}" in text for number, text in enumerate(shown)), shown[:2]
        rows = [await alpha.store.sent(MsgId(id_), beta.gid("worker")) for id_ in ids]
        assert all(row and row.sig and row.proof for row in rows)


async def test_what_one_sent_is_listed_with_how_it_begins(tmp_path: Path) -> None:
    bodies = {
        b"short": "short",
        b"two\nlines\x1b": "two lines",
        b"x" * 60: "x" * 60,
        b"x" * 61: "x" * 59 + "…",
        "ä".encode() * 40: "ä" * 29 + "…",
        b"\xff\x00\xfe": "",
    }
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as alpha:
        await many(alpha, *[schema.Send(to=["worker"], body=body) for body in bodies])
        listed = await Messages(alpha.performer).inbox(schema.Inbox(sent=True), who(alpha, "human"), HERE)
        previews = [view.preview for view in listed.messages[::-1]]
        assert previews == [*bodies.values()]


async def test_one_that_cannot_be_sent_is_told_in_its_place_and_keeps_none_of_the_others(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        sent = await many(
            shell,
            schema.Send(to=["worker"], body=b"good"),
            schema.Send(to=["wroker"], body=b"no such name"),
            schema.Send(to=[], body=b"for nobody"),
            schema.Send(to=["worker"], body=b"x", expires_s=-1.0),
            schema.Send(to=["worker"], body=b"x", key="k", after_s=60),
            schema.Send(to=["worker"], body=b"x" * 300_000),
            schema.Send(to=["worker", "lead"], body=b"for two"),
        )
        reasons = [each.error.reason if each.error else "" for each in sent]
        assert reasons == ["", "no-such-recipient", "usage", "lifetime", "usage", "oversize", ""]
        assert all(each.error.message and each.error.exit_code in (2, 3) for each in sent if each.error)
        assert sent[1].error is not None
        assert "worker" in sent[1].error.hint
        assert [len(each.messages) for each in sent] == [1, 0, 0, 0, 0, 0, 2]
        assert shell.gateway.ledger.lane(shell.gid("worker")).count == 2


async def test_a_host_that_is_not_reached_is_told_for_each(tmp_path: Path) -> None:
    memory = MemoryBroker()
    async with running("beta", tmp_path, memory, FAR), running("alpha", tmp_path, memory) as alpha:
        await until(lambda: alpha.gateway.roster.others, "who lives on beta")
    async with running("alpha", tmp_path, memory, connected=False) as alpha:
        sent = await many(alpha, *[schema.Send(to=["worker@beta"], body=b"one")] * 3)
        words = [word for each in sent for word in each.messages]
        assert [(w.state, w.reason, w.exit_code) for w in words] == [("failed", "broker-unreachable", 8)] * 3


async def test_a_key_stands_for_one_message_within_a_call_and_in_a_later_one(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        one, two = schema.Send(to=["worker"], body=b"1", key="a"), schema.Send(to=["worker"], body=b"2", key="b")
        first = await many(shell, one, two, one)
        shell.gateway.sends.keys.clear()  # as after a restart: only the store knows them
        again = await many(shell, two, one, schema.Send(to=["worker"], body=b"other", key="a"))
        ids = [[word.msg_id for word in each.messages] for each in (*first, *again)]
        assert ids[0] == ids[2] == ids[4]
        assert ids[1] == ids[3]
        assert again[2].error is not None
        assert again[2].error.reason == "key-conflict"
        assert shell.gateway.ledger.lane(shell.gid("worker")).count == 2


async def test_one_of_many_can_be_sent_later(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        now, later = await many(
            shell, schema.Send(to=["worker"], body=b"1"), schema.Send(to=["worker"], body=b"2", after_s=600)
        )
        assert states([now, later]) == ["held", "scheduled"]
        assert later.messages[0].gid == shell.gid("worker")


async def test_the_loop_guard_judges_each_of_many(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        same = [schema.Send(to=["worker"], body=b"again and again")] * 3
        sent = await many(shell, schema.Send(to=["worker"], body=b"new"), *same, sender="lead")
        lane = {row.msg_id: row.held for row in shell.gateway.ledger.lane(shell.gid("worker"))}
        assert [lane[MsgId(word.msg_id)] for each in sent for word in each.messages] == ["", "", "loop", "loop"]


async def test_nobody_without_a_name_sends_many(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        nobody = Caller(problem="nobody says who is calling", hint="attach")
        request = schema.SendMany([schema.Send(to=["worker"], body=b"x")])
        with pytest.raises(CallError, match="nobody says"):
            await Messages(shell.performer).sending.send_many(request, nobody, HERE)


@pytest.mark.parametrize("count", [0, 257])
def test_a_call_with_none_or_too_many_is_refused(count: int) -> None:
    line = {"to": ["worker"], "body": ""}
    request = {"jsonrpc": "2.0", "id": 1, "method": "send_many", "params": {"messages": [line] * count}}
    with pytest.raises(jsonrpc.BadRequest) as refused:
        jsonrpc.parse_params(jsonrpc.parse_request(msgspec.json.encode(request)))
    assert refused.value.body.message.startswith("send_many: messages")


async def test_sends_that_were_read_together_each_have_their_answer(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        (together,) = Messages(shell.performer).sending.together().values()
        answers: dict[str, schema.SendResult | FleetTrioError] = {}
        names = ("worker", "wroker", "lead")
        asked = [Asked(schema.Send(to=[name], body=b"x"), partial(answers.__setitem__, name)) for name in names]
        assert all(together.takes(one.params) for one in asked)
        await together.begin(asked, who(shell, "human"), HERE)
        assert isinstance(answers["wroker"], FleetTrioError)
        for name in ("worker", "lead"):
            result = answers[name]
            assert isinstance(result, schema.SendResult)
            assert [view.gid for view in result.messages] == [shell.gid(name)]
        assert Gid(shell.gid("lead")) in shell.gateway.roster.entities


@pytest.mark.parametrize("more", [{"key": "k"}, {"supersedes": "@last"}, {"cwd": "/"}, {"paths": ["a"]}])
async def test_a_send_that_has_to_look_first_keeps_no_other_waiting(tmp_path: Path, more: dict[str, object]) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        (together,) = Messages(shell.performer).sending.together().values()
        plain = {"to": ["worker"], "body": ""}
        assert together.takes(msgspec.convert(plain, schema.Send))
        assert not together.takes(msgspec.convert({**plain, **more}, schema.Send))
