"""Two fleets on two brokers in memory, and a third one for their leads: the shipped session in both realms at once."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from fleettrio.broker.memory import SETTINGS, MemoryBroker
from fleettrio.broker.port import BrokerSession
from fleettrio.calls import CallFailed
from fleettrio.core import requests as ask
from fleettrio.core.beginning import Coordinator
from fleettrio.core.calls import Accepted
from fleettrio.core.compose import Identity, gateway_of, human_of
from fleettrio.core.topology import CONTROL, DLX, OPS, REPORTED_LETTERS, Binding, Queue, lead_key
from fleettrio.ids import HostId, MsgId
from fleettrio.local.frame import unframe
from fleettrio.session import Session
from fleettrio.supervise import run_supervisor
from fleettrio.tasks.realm import CoordinatorRealm
from fleettrio.wire.signing import Signer, Verifier
from tests.core.builders import TRACE, agent, seed_of
from tests.core.leads import LEADS, leads_fleet, mailbox_gid
from tests.tasks.shell import Shell, running, until, until_stored

PAIRS = {"alpha": "lead-a", "beta": "lead-b", "gamma": "lead-c"}
FILE = leads_fleet(PAIRS, reporters=("gamma",))
PULLS = {"takes": "pull", "transport": "pull"}
MAILBOX = "lead.lead-b.mailbox"


def coordinator(name: str) -> Coordinator:
    host = HostId(name)
    me = Identity(host, LEADS, gateway_of(LEADS, host), human_of(LEADS, host), 1)
    return Coordinator(me=me, coord_id=PAIRS[name], lead="lead", fleet=FILE)


@contextlib.asynccontextmanager
async def leading(shell: Shell, leads: MemoryBroker) -> AsyncIterator[trio.Event]:
    """Its session at the coordinator's broker, until it is cancelled; the event ends it politely."""
    stopping = trio.Event()
    session = Session(
        settings=SETTINGS,
        open_session=leads.open,
        realm=CoordinatorRealm(shell.performer),
        signer=Signer(LEADS, shell.name, 1, seed_of(shell.name)),
        verifier=Verifier(FILE),
        body_limit=2**18,
        beat_s=0.2,
        grace_s=1.0,
        stopping=stopping,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_supervisor, session)
        await until(lambda: shell.gateway.coordination.mailbox.state == "open", f"the mailbox of {shell.name}")
        yield stopping
        nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def two_leads(folder: Path, leads: MemoryBroker) -> AsyncIterator[tuple[Shell, Shell]]:
    """alpha's lead pulls, beta's is in a pane; their fleets have nothing in common."""
    puller = agent("lead", "alpha", takes="pull", transport="pull")
    async with (
        running("alpha", folder, MemoryBroker(), [puller], coordinator=coordinator("alpha")) as alpha,
        running("beta", folder, MemoryBroker(), [agent("lead", "beta")], coordinator=coordinator("beta")) as beta,
        leading(alpha, leads),
        leading(beta, leads),
    ):
        yield alpha, beta


async def coord(shell: Shell, coord_id: str, body: bytes = b"we take src/ui") -> tuple[MsgId, Accepted]:
    call, msg_id = shell.performer.calls.new(), shell.new_id()
    await shell.performer.handle(
        ask.CoordAsked(call=call, sender=shell.gid("lead"), coord_id=coord_id, body=body, msg_id=msg_id, trace_id=TRACE)
    )
    result = await shell.performer.calls.result(call)
    assert isinstance(result, Accepted)
    return msg_id, result


async def test_it_lands_in_the_pane_of_the_other_lead_and_the_word_is_stored(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    async with two_leads(tmp_path, memory) as (alpha, beta):
        msg_id, accepted = await coord(alpha, "lead-b")
        assert accepted.rows[0].state == "confirmed"
        await until_stored(lambda: alpha.is_fate(msg_id, mailbox_gid("beta"), "injected"), "the word of beta")
        (text,) = beta.panes[beta.gid("lead")].texts
        assert unframe(text.framed) == "we take src/ui"
        assert "from lead.lead-a" in text.framed


async def test_what_waits_in_the_mailbox_while_a_lead_is_away_is_taken_when_it_is_back(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    puller = agent("lead", "alpha", takes="pull", transport="pull")
    lead = agent("lead", "beta", takes="pull", transport="pull")
    async with (
        running("alpha", tmp_path, MemoryBroker(), [puller], coordinator=coordinator("alpha")) as alpha,
        leading(alpha, memory),
        running("beta", tmp_path, MemoryBroker(), [lead], coordinator=coordinator("beta")) as beta,
    ):
        async with leading(beta, memory):
            pass  # its mailbox is there from now on
        msg_id, _ = await coord(alpha, "lead-b")
        assert not await beta.is_state(msg_id, "lead", "waiting")
        async with leading(beta, memory):
            await until_stored(lambda: beta.is_state(msg_id, "lead", "waiting"), "the message")
            await until_stored(lambda: alpha.is_fate(msg_id, mailbox_gid("beta"), "held"), "its word")


async def test_a_coordinator_that_is_not_reached_fails_the_send_and_nothing_else(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    puller = agent("lead", "alpha", takes="pull", transport="pull")
    async with running("alpha", tmp_path, memory, [puller], coordinator=coordinator("alpha")) as alpha:
        msg_id, accepted = await coord(alpha, "lead-b")
        assert (accepted.rows[0].state, accepted.rows[0].reason) == ("failed", "broker-unreachable")
        assert await alpha.is_fate(msg_id, mailbox_gid("beta"), "failed")
        assert alpha.link == "up"
        neighbour, _ = await alpha.send("lead")
        assert await alpha.is_state(neighbour, "lead", "waiting")


async def test_only_the_lead_of_a_host_may_say_it(tmp_path: Path, memory: MemoryBroker) -> None:
    async with running("alpha", tmp_path, memory, [], coordinator=coordinator("alpha")) as alpha:
        with pytest.raises(CallFailed) as refused:
            await coord(alpha, "lead-b")
        assert refused.value.reason == "not-the-lead"


# --- what dies in a mailbox


@contextlib.asynccontextmanager
async def sender_and_reporter(folder: Path, leads: MemoryBroker) -> AsyncIterator[tuple[Shell, Shell]]:
    """alpha's lead writes to that of beta, which is away; its mailbox holds one message. gamma may report."""
    here = {
        name: running(
            name, folder, MemoryBroker(), [agent("lead", name, **PULLS)], connected=False, coordinator=coordinator(name)
        )
        for name in ("alpha", "gamma")
    }
    async with here["alpha"] as alpha, here["gamma"] as gamma, leading(alpha, leads), administrator(leads) as admin:
        queue = Queue(MAILBOX, {"x-dead-letter-exchange": DLX, "x-max-length": 1, "x-overflow": "drop-head"})
        await admin.declare((), (queue,), (Binding(MAILBOX, OPS, lead_key("lead-b")),))
        yield alpha, gamma


@contextlib.asynccontextmanager
async def administrator(leads: MemoryBroker) -> AsyncIterator[BrokerSession]:
    async with leads.open(SETTINGS, 99) as session:
        yield session


def told_to(leads: MemoryBroker, host: str) -> int:
    return sum((publish.exchange, publish.routing_key) == (CONTROL, host) for publish in leads.published)


def set_aside(leads: MemoryBroker) -> int:
    queue = leads.model.queues.get(REPORTED_LETTERS)
    return len(queue.ready) if queue else 0


async def test_what_a_full_mailbox_pushed_out_is_told_to_the_lead_that_sent_it_and_set_aside(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    async with sender_and_reporter(tmp_path, memory) as (alpha, gamma), leading(gamma, memory):
        first, _ = await coord(alpha, "lead-b", b"pushed out")
        second, _ = await coord(alpha, "lead-b", b"pushes")
        await until_stored(lambda: alpha.is_fate(first, mailbox_gid("beta"), "failed"), "what the reporter says")
        row = await alpha.store.sent(first, mailbox_gid("beta"))
        assert row is not None
        assert (row.reason, row.said_by) == ("overflow", "report")
        await until(lambda: set_aside(memory) == 1, "the letter among those that were reported")
        assert memory.dead == []
        assert await alpha.is_fate(second, mailbox_gid("beta"), "confirmed")
        assert told_to(memory, "alpha") == 1


async def test_a_reporter_that_went_between_telling_and_moving_tells_the_lead_nothing_twice(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    async with sender_and_reporter(tmp_path, memory) as (alpha, gamma):
        async with leading(gamma, memory), administrator(memory) as admin:
            await admin.delete_queue(REPORTED_LETTERS, if_empty=False)  # there is nowhere to move it to
            first, _ = await coord(alpha, "lead-b", b"told once")
            await coord(alpha, "lead-b", b"pushes")
            await until_stored(lambda: alpha.is_fate(first, mailbox_gid("beta"), "failed"), "what the reporter says")
        assert set_aside(memory) == 0
        async with leading(gamma, memory):
            await until(lambda: set_aside(memory) == 1, "the letter among those that were reported")
        assert told_to(memory, "alpha") == 1


async def test_a_host_that_is_not_granted_it_leaves_the_dead_letters_of_the_leads_alone(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    async with sender_and_reporter(tmp_path, memory) as (alpha, _):
        first, _ = await coord(alpha, "lead-b", b"pushed out")
        await coord(alpha, "lead-b", b"pushes")
        await until(lambda: len(memory.dead) == 1, "the dead letter")
        assert "fleet.dlq" not in memory.consume_calls
        assert await alpha.is_fate(first, mailbox_gid("beta"), "confirmed")
