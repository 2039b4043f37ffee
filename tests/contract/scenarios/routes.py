"""Where messages go: patterns, copies, the fleet's own topology."""

from __future__ import annotations

from fleettrio.core.topology import (
    EXCHANGES,
    MSG,
    ROSTER,
    Binding,
    Exchange,
    InboxQueue,
    control_queue,
    inbox_queue,
    roster_queue,
    shared_queues,
)  # fmt: skip
from fleettrio.ids import Gid, HostId
from tests.contract.scenarios.props import DEAD, make_graveyard, mortal, queue
from tests.contract.stage import Player, Stage

TO_DEAD = Binding("dead", "dlx", "first")


async def _tell_counts(player: Player, *names: str) -> None:
    for name in names:
        await player.count(name)


async def a_topic_pattern_takes_words(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    patterns = {"all": "#", "one": "a.*", "many": "a.#", "end": "#.z", "exact": "a.b", "middle": "a.#.z"}
    for name, pattern in patterns.items():
        await alpha.make(queue(name), Binding(name, "amq.topic", pattern))
    for key in ("a", "a.b", "a.b.z", "z", "a.z", "", "a..z"):
        await alpha.publish(alpha.message(key, to=key, exchange="amq.topic"))
        for name in patterns:
            count = 0
            while (got := await alpha.session.get(name)) is not None:
                alpha.session.ack(got.tag)
                count += 1
            stage.tell(key, "to", name, count)


async def direct_is_exact_and_fanout_takes_all(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(
        Exchange("exact", "direct"), Exchange("all", "fanout"), queue(),
        Binding("inbox", "exact", "a.#"), Binding("inbox", "all", "a"),
    )  # fmt: skip
    await alpha.send("exact", to="a.#", exchange="exact")
    await alpha.send("no pattern", to="a.b", exchange="exact")
    await alpha.send("all", to="anything", exchange="all")
    await alpha.browse("inbox")


async def a_queue_bound_twice_takes_one_copy(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue(), Binding("inbox", "amq.topic", "#"), Binding("inbox", "amq.topic", "a"))
    await alpha.make(Binding("inbox", "amq.topic", "a"))
    await alpha.send("once", to="a", exchange="amq.topic")
    await alpha.browse("inbox")


async def an_unbound_key_reaches_the_queue_no_more(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue(), Binding("inbox", "amq.topic", "a"), Binding("inbox", "amq.topic", "b"))
    await alpha.session.unbind([Binding("inbox", "amq.topic", "a"), Binding("inbox", "amq.topic", "a")])
    await alpha.send("gone", to="a", exchange="amq.topic")
    await alpha.send("there", to="b", exchange="amq.topic")
    await alpha.browse("inbox")


async def the_fleets_own_topology(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    queues, bindings = shared_queues()
    await alpha.make(*EXCHANGES, *queues, *bindings)
    worker, worker_bindings = inbox_queue(HostId("beta"), InboxQueue(Gid("worker"), ("review",), broadcast=True))
    lead, lead_bindings = inbox_queue(HostId("alpha"), InboxQueue(Gid("lead")))
    control, control_bindings = control_queue(HostId("beta"))
    roster, roster_bindings = roster_queue(HostId("beta"), "nonce")
    await alpha.make(lead, *lead_bindings)
    await beta.make(*EXCHANGES, *queues, *bindings, worker, control, *worker_bindings, *control_bindings)
    await beta.make(roster, *roster_bindings)
    for to in ("worker", "lead", "broadcast.all", "broadcast.review", "broadcast.build", "nobody"):
        await alpha.send(to, to=to, exchange=MSG)
    await alpha.send("roster.alpha._gateway", to="roster.alpha._gateway", exchange=ROSTER)
    await alpha.send("beta", to="beta", exchange="fleet.control")
    await alpha.send("reported", to="dlq.reported", exchange="fleet.ops")
    await _tell_counts(beta, worker.name, lead.name, control.name, roster.name, "fleet.dlq", "fleet.dlq.reported")
    await beta.consume(worker.name)
    for got in await beta.take(worker.name, 3):
        beta.session.reject(got.tag)
    await beta.wait_for_count("fleet.dlq", 3)
    await beta.bury("fleet.dlq")


async def a_copy_arrives_under_the_first_key_and_says_so(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue("first"), queue("second"), queue("third"))
    async with stage.raw() as raw:
        stage.tell(await raw.publish("", "first", headers={"CC": ["second", "third"]}, mandatory=True))
    for name in ("first", "second", "third"):
        (got,) = await alpha.browse(name)
        stage.tell(name, "sees the copies", got.headers.has_cc)


async def a_blind_copy_shows_nothing(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue("first"), queue("second"))
    async with stage.raw() as raw:
        stage.tell(await raw.publish("", "first", headers={"BCC": ["second"]}, mandatory=True))
    for name in ("first", "second"):
        (got,) = await alpha.browse(name)
        stage.tell(name, "sees the copies", got.headers.has_cc)


async def several_keys_to_one_queue_are_one_message(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue(), Binding("inbox", "amq.topic", "a"), Binding("inbox", "amq.topic", "b"))
    async with stage.raw() as raw:
        stage.tell(await raw.publish("amq.topic", "a", headers={"CC": ["b", "a"], "BCC": ["b"]}, mandatory=True))
    await alpha.browse("inbox")


async def a_copy_that_arrives_is_no_return(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    async with stage.raw() as raw:
        stage.tell(await raw.publish("", "nobody", headers={"BCC": ["inbox"]}, mandatory=True))
        stage.tell(await raw.publish("", "nobody", headers={"CC": ["nobody else"]}, mandatory=True))
    await alpha.browse("inbox")


async def a_dead_letter_goes_out_again_under_all_its_keys(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(Exchange("dlx", "direct"), DEAD, queue("copies"), TO_DEAD, Binding("copies", "dlx", "second"))
    await alpha.make(queue("blind"), Binding("blind", "dlx", "third"), mortal("first"))
    async with stage.raw() as raw:
        stage.tell(await raw.publish("", "first", headers={"CC": ["second"], "BCC": ["third"]}, mandatory=True))
    await alpha.consume("first")
    (got,) = await alpha.take("first")
    alpha.session.reject(got.tag)
    for name in ("dead", "copies", "blind"):
        await alpha.wait_for_count(name, 1)
        (dead,) = await alpha.bury(name)
        stage.tell(name, "sees the copies", dead.headers.has_cc)


async def a_key_for_the_dead_replaces_all_of_them(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(Exchange("dlx", "direct"), DEAD, TO_DEAD, queue("copies"), Binding("copies", "dlx", "second"))
    await alpha.make(mortal("grave", dead_letter_routing_key="first"))
    async with stage.raw() as raw:
        stage.tell(await raw.publish("", "grave", headers={"CC": ["second"]}, mandatory=True))
    await alpha.consume("grave")
    (got,) = await alpha.take("grave")
    alpha.session.reject(got.tag)
    await alpha.wait_for_count("dead", 1)
    (dead,) = await alpha.bury("dead")
    stage.tell("sees the copies", dead.headers.has_cc)
    await alpha.count("copies")


async def an_exchange_for_the_dead_that_is_missing_loses_them_silently(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(mortal())
    await alpha.send("lost", to="inbox")
    await alpha.consume("inbox")
    (got,) = await alpha.take("inbox")
    alpha.session.reject(got.tag)
    await make_graveyard(alpha)
    await alpha.send("found", to="inbox")
    (got,) = await alpha.take("inbox")
    alpha.session.reject(got.tag)
    await alpha.wait_for_count("dead", 1)
    await alpha.bury("dead")
