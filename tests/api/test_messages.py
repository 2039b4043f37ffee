"""What a client gets for its sends and its looks, on a host with its real store."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.lookup import Lookup
from fleettrio.api.messages import Messages
from fleettrio.api.rpc import CallError, Connection
from fleettrio.api.spawns import Spawns
from fleettrio.api.traces import Traces
from fleettrio.broker.memory import MemoryBroker
from fleettrio.calls import CallFailed
from fleettrio.core import events as ev
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.ids import Gid, MsgId, short_id
from fleettrio.local.frame import unframe
from fleettrio.local.nonces import nonces_in
from fleettrio.local.sanitise import clean
from tests.core.builders import agent
from tests.corpus.hostile import HOSTILE, leaks
from tests.tasks.shell import Shell, Stays, running, until, until_stored

MOMENT = r"at (\d{4}-\d\d-\d\d \d\d:\d\d|\d\d:\d\d:\d\d)"
HERE = Connection(pid=1, uid=0)
NAMES = ("lead", "worker", "stranger")
AGENTS = [agent(name, "alpha", takes="pull", transport="pull") for name in NAMES]


def who(shell: Shell, name: str) -> Caller:
    return Caller(shell.gid(name), name, name == "human")


async def test_the_same_recipient_by_name_address_and_gid_gets_one_message(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        to = ["worker", "worker@alpha", shell.gid("worker"), "lead", "worker"]
        sent = await Messages(shell.performer).sending.send(schema.Send(to=to, body=b"once"), who(shell, "human"), HERE)
        assert [view.recipient for view in sent.messages] == ["worker@alpha", "lead@alpha"]
        assert shell.gateway.ledger.lane(shell.gid("worker")).count == 1


async def test_the_last_message_to_reply_to_is_no_answer_and_one_that_waits_is_said_to_wait(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages, lead = Messages(shell.performer), who(shell, "lead")
        reply = schema.Reply(re="@last", body=b"done")
        with pytest.raises(CallError, match="no such message came to you yet"):
            await messages.sending.reply(reply, lead, HERE)
        await messages.sending.send(schema.Send(to=["lead"], body=b"do it"), who(shell, "human"), HERE)
        with pytest.raises(CallError, match="1 message waits for you") as refused:
            await messages.sending.reply(reply, lead, HERE)
        assert "inbox --take" in refused.value.hint


async def test_what_goes_out_on_another_day_is_said_with_its_date(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        asked = schema.Send(to=["worker"], body=b"x", after_s=3 * 86_400)
        (due,) = (await Messages(shell.performer).sending.send(asked, who(shell, "lead"), HERE)).messages
        assert re.search(r"goes out to worker@alpha at \d{4}-\d\d-\d\d \d\d:\d\d;", due.sentence), due.sentence


async def test_the_last_one_is_what_was_asked_for_last_also_when_it_goes_out_later(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages, lead, human = Messages(shell.performer), who(shell, "lead"), who(shell, "human")
        last = schema.Cancel("@last")

        async def send(caller: Caller, after_s: float = 0.0) -> str:
            then = shell.performer.clock.now().wall
            await until(lambda: shell.performer.clock.now().wall > then, "the next millisecond")
            asked = schema.Send(to=["worker"], body=b"x", after_s=after_s)
            return (await messages.sending.send(asked, caller, HERE)).messages[0].msg_id

        now = await send(lead)
        due = await send(lead, after_s=600)
        await send(human, after_s=600)
        shown = await messages.show(schema.Show("@last"), lead, HERE)
        assert shown.messages[0].msg_id == due
        assert re.fullmatch(MOMENT, shown.journal[0].detail), shown.journal
        called_off = (await messages.cancel(last, lead, HERE)).messages[0]
        assert (called_off.msg_id, called_off.state) == (due, "recalled")
        assert await shell.is_state(MsgId(now), "worker", "waiting")
        assert (await messages.cancel(last, lead, HERE)).messages[0].msg_id == now

        await send(lead, after_s=600)
        newest = await send(lead)
        assert (await messages.cancel(last, lead, HERE)).messages[0].msg_id == newest


async def test_a_neighbour_at_rest_that_is_seen_without_waiting_is_fed_without_a_look(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), [agent("worker", "alpha")], connected=False) as shell:
        pane, sending = shell.panes[shell.gid("worker")], Messages(shell.performer).sending
        pane.__class__ = Stays
        await until(shell.performer.lanes[shell.gid("worker")].glance, "its delivery at rest")
        (sent,) = (await sending.send(schema.Send(to=["worker"], body=b"x"), who(shell, "human"), HERE)).messages
        await until_stored(lambda: shell.is_state(MsgId(sent.msg_id), "worker", "injected"))
        assert (len(pane.texts), pane.looking.is_set()) == (1, False)

        pane.not_ready = "it is working"
        await sending.send(schema.Send(to=["worker"], body=b"y"), who(shell, "human"), HERE)
        await until(pane.looking.is_set, "a look, as for any other")


async def test_a_reply_to_what_was_put_in_last_needs_no_look_at_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running("beta", tmp_path, MemoryBroker(), [agent("worker", "beta")], connected=False) as shell:
        older, _ = await shell.send("worker", b"one")
        await until(lambda: len(shell.panes[shell.gid("worker")].texts) == 1, "the first text")
        latest, _ = await shell.send("worker", b"two")
        await until(lambda: len(shell.panes[shell.gid("worker")].texts) == 2, "the second text")
        looked, find = list[str](), shell.store.find

        async def found(ending: str, *, or_older: bool = False) -> tuple[list[InboxRow], list[SentRow]]:
            looked.append(ending)
            return await find(ending, or_older=or_older)

        monkeypatch.setattr(shell.store, "find", found)
        lookup, worker = Lookup(shell.performer), shell.gid("worker")
        for name in (short_id(latest), latest, older):
            assert (await lookup.to_reply(name, worker)).msg_id in (latest, older)
        assert looked == []
        assert (await lookup.to_reply(short_id(older), worker)).msg_id == older
        with pytest.raises(CallError, match="did not come to you"):
            await lookup.to_reply(short_id(latest), Gid("nobody"))
        assert looked == [short_id(older), short_id(latest)]


async def test_the_last_message_is_the_same_one_whatever_is_asked_of_it(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages, lead, worker = Messages(shell.performer), who(shell, "lead"), who(shell, "worker")
        await messages.sending.send(schema.Send(to=["worker"], body=b"do it"), lead, HERE)
        with pytest.raises(CallError, match="is one that you sent: its text is not kept"):
            await messages.body(schema.BodyOf("@last"), lead, HERE)
        await messages.sending.send(schema.Send(to=["lead"], body=b"which one?"), worker, HERE)
        await messages.waiting.pull(schema.Pull(), lead, HERE)
        shown = (await messages.show(schema.Show("@last"), lead, HERE)).messages[0]
        read = await messages.body(schema.BodyOf("@last"), lead, HERE)
        assert (read.msg_id, read.body) == (shown.msg_id, b"which one?")
        await until(lambda: shell.performer.clock.now().wall > shown.at, "the next millisecond")
        sent = await messages.sending.send(schema.Send(to=["worker"], body=b"the blue one"), lead, HERE)
        assert (await messages.show(schema.Show("@last"), lead, HERE)).messages[0].msg_id == sent.messages[0].msg_id
        with pytest.raises(CallError, match=f"the last that came to you is {shown.short}") as refused:
            await messages.framed(schema.BodyOf("@last"), lead, HERE)
        assert refused.value.hint == f"fleettrio show {shown.short} --framed"


async def test_whoever_replaces_a_broadcast_is_told_whom_it_reached_and_no_id_of_nobody(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages, lead = Messages(shell.performer), who(shell, "lead")
        await messages.sending.broadcast(schema.Broadcast(group="all", body=b"one"), lead, HERE)
        with pytest.raises(CallError, match="was broadcast, and reached nobody") as refused:
            await messages.sending.send(schema.Send(to=["worker"], body=b"two", supersedes="@last"), lead, HERE)
        assert refused.value.hint == ""


@pytest.mark.parametrize("seconds", [0.0, -5.0, 1e-9])
async def test_a_message_that_is_over_before_it_begins_is_refused(tmp_path: Path, seconds: float) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        request = schema.Send(to=["worker"], body=b"x", expires_s=seconds)
        with pytest.raises(CallError, match="too short for a message") as refused:
            await Messages(shell.performer).sending.send(request, who(shell, "human"), HERE)
        assert (refused.value.exit_code, "10m" in refused.value.hint) == (2, True)


async def test_a_key_with_another_body_is_a_conflict_also_after_a_restart(tmp_path: Path) -> None:
    for body in (b"first", b"first", b"second"):
        async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
            request = schema.Send(to=["worker"], body=body, key="k")
            if body == b"first":
                await Messages(shell.performer).sending.send(request, who(shell, "lead"), HERE)
            else:
                with pytest.raises(CallFailed) as refused:
                    await Messages(shell.performer).sending.send(request, who(shell, "lead"), HERE)
                assert (refused.value.reason, refused.value.exit_code) == ("key-conflict", 2)
            assert shell.gateway.ledger.lane(shell.gid("worker")).count == 1


async def test_an_agent_sees_of_a_trace_what_it_is_party_to_and_how_much_more_there_is(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages = Messages(shell.performer)
        to_two = schema.Send(to=["worker", "human"], body=b"secret plan")
        sent = await messages.sending.send(to_two, who(shell, "lead"), HERE)
        trace = schema.Trace(sent.trace_id)

        seen_by = {
            name: await Traces(shell.performer).trace(trace, who(shell, name), HERE) for name in (*NAMES, "human")
        }
        ids = {view.recipient: view.msg_id for view in sent.messages}
        assert {view.msg_id for view in seen_by["worker"].messages} == {ids["worker@alpha"]}
        assert {line.msg_id for line in seen_by["worker"].journal} <= {ids["worker@alpha"]}
        assert (seen_by["stranger"].messages, seen_by["stranger"].journal) == ([], [])
        assert {name: seen.others for name, seen in seen_by.items()} == {
            "lead": 0,
            "worker": 1,
            "stranger": 2,
            "human": 0,
        }


async def test_what_replaces_a_message_goes_to_the_same_agent(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages, lead = Messages(shell.performer), who(shell, "lead")
        first = (await messages.sending.send(schema.Send(to=["worker"], body=b"one"), lead, HERE)).messages[0]
        with pytest.raises(CallError, match="went to worker@alpha") as refused:
            await messages.sending.send(schema.Send(to=["stranger"], body=b"two", supersedes=first.msg_id), lead, HERE)
        assert refused.value.exit_code == 2
        await messages.sending.send(
            schema.Send(to=["stranger", "worker"], body=b"two", supersedes=first.msg_id), lead, HERE
        )
        assert await shell.is_state(MsgId(first.msg_id), "worker", "superseded")


async def test_a_start_is_not_called_back_and_what_ends_it_is_said(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        asked = schema.Spawn(profile="nothing")
        order = await Spawns(shell.performer).spawn(asked, who(shell, "human"), HERE)
        assert order.message.recipient == "alpha"  # by the name that this host has for others
        with pytest.raises(CallError, match="not called back") as refused:
            await Messages(shell.performer).cancel(schema.Cancel(order.message.msg_id), who(shell, "human"), HERE)
        assert (refused.value.exit_code, refused.value.hint) == (3, f"fleettrio stop {order.message.short}")


async def test_what_a_start_asks_for_is_shown_in_words_and_never_its_raw_bytes(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages, me = Messages(shell.performer), who(shell, "human")
        order = await Spawns(shell.performer).spawn(schema.Spawn(profile="coder", name="w3"), me, HERE)
        shown = await messages.show(schema.Show(order.message.msg_id), me, HERE)
        assert [view.preview for view in shown.messages] == ["spawn coder as w3"] * 2
        assert (await messages.body(schema.BodyOf(order.message.msg_id), me, HERE)).text == "spawn coder as w3"


async def test_a_message_is_read_in_its_frame_whole_and_clean_with_a_nonce_of_its_own(tmp_path: Path) -> None:
    body = b"\n".join(hostile[:600] for hostile in HOSTILE.values())
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages, worker = Messages(shell.performer), who(shell, "worker")
        sent = (await messages.sending.send(schema.Send(to=["worker"], body=body), who(shell, "lead"), HERE)).messages[
            0
        ]

        texts = [(await messages.framed(schema.BodyOf(sent.msg_id), worker, HERE)).text for _ in range(2)]
        for text in texts:
            assert unframe(text) == clean(body)
            assert leaks(text) == []
            assert text.startswith("[fleettrio ")
            assert f"message {sent.short} from lead@alpha (same host)" in text.split("\n")[0]
        first, second = (text[len("[fleettrio ") :].partition("]")[0] for text in texts)
        assert first != second
        with pytest.raises(CallError, match="did not come to you"):
            await messages.framed(schema.BodyOf(sent.msg_id), who(shell, "stranger"), HERE)


async def test_an_agent_that_waits_gets_its_answer_framed_and_the_person_the_bytes_alone(tmp_path: Path) -> None:
    body = b"\n".join(hostile[:600] for hostile in HOSTILE.values())
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages = Messages(shell.performer)
        for name in ("lead", "human"):
            me = who(shell, name)
            sent = (await messages.sending.send(schema.Send(to=["worker"], body=name.encode()), me, HERE)).messages[0]
            await messages.sending.reply(schema.Reply(re=sent.msg_id, body=body), who(shell, "worker"), HERE)
            waited = await messages.waiting.wait(schema.Wait([sent.msg_id], "answer", 5.0, framed=True), me, HERE)
            (answer,) = waited.answers
            assert answer.body == body
            if name == "human":
                assert answer.framed == ""
            else:
                assert unframe(answer.framed) == clean(body)
                assert leaks(answer.framed) == []
                assert f"reply {answer.short} from worker@alpha (same host)" in answer.framed.split("\n")[0]


async def test_that_a_message_was_looked_up_is_no_evidence_that_it_was_delivered(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages, worker = Messages(shell.performer), who(shell, "worker")
        sent = (await messages.sending.send(schema.Send(to=["worker"], body=b"hi"), who(shell, "lead"), HERE)).messages[
            0
        ]
        text = (await messages.framed(schema.BodyOf(sent.msg_id), worker, HERE)).text
        assert nonces_in(text)
        assert shell.performer.nonces.delivered(nonces_in(text), shell.gid("worker")) == ()


async def test_an_order_is_framed_in_words_and_never_as_its_raw_bytes(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        me = who(shell, "human")
        order = await Spawns(shell.performer).spawn(schema.Spawn(profile="coder", name="w3"), me, HERE)
        framed = await Messages(shell.performer).framed(schema.BodyOf(order.message.msg_id), me, HERE)
        assert unframe(framed.text) == "spawn coder as w3"


async def test_what_an_agent_sent_before_it_was_let_go_for_good_still_says_its_name(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages, worker = Messages(shell.performer), who(shell, "worker")
        sent = (await messages.sending.send(schema.Send(to=["worker"], body=b"hi"), who(shell, "lead"), HERE)).messages[
            0
        ]
        call = shell.performer.calls.new()
        await shell.performer.handle(ev.Detached(call, shell.gid("lead"), forget=True))
        await shell.performer.calls.result(call)

        framed = await messages.framed(schema.BodyOf(sent.msg_id), worker, HERE)
        assert f"message {sent.short} from lead@alpha (same host)" in framed.text.split("\n")[0]
