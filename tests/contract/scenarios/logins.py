"""TLS and own logins with the least rights: what a gateway needs passes, what is another's is refused."""

from __future__ import annotations

from fleettrio.core.topology import (
    EXCHANGES,
    MSG,
    OPS,
    ROSTER,
    Binding,
    InboxQueue,
    Queue,
    control_queue,
    inbox_queue,
    roster_queue,
    shared_queues,
)  # fmt: skip
from fleettrio.ids import Gid, HostId
from tests.contract.stage import Player, Stage

LEAD, LEAD_BINDINGS = inbox_queue(HostId("alpha"), InboxQueue(Gid("lead")))
WORKER, WORKER_BINDINGS = inbox_queue(HostId("beta"), InboxQueue(Gid("worker"), ("review",), broadcast=True))
CONTROL = "fleet.control"


async def _boot(stage: Stage, host: str) -> Player:
    """As a gateway does it, with the host's own login."""
    player = await stage.session(host, login=host)
    inbox, bindings = (LEAD, LEAD_BINDINGS) if host == "alpha" else (WORKER, WORKER_BINDINGS)
    control, control_bindings = control_queue(HostId(host))
    roster, roster_bindings = roster_queue(HostId(host), "nonce")
    shared, shared_bindings = shared_queues()
    await player.make(*EXCHANGES, *shared, control, roster, *shared_bindings, *control_bindings, *roster_bindings)
    await player.make(inbox, *bindings)
    return player


async def a_gateway_boots_and_is_heard(stage: Stage) -> None:
    alpha, beta = await _boot(stage, "alpha"), await _boot(stage, "beta")
    for queue in (WORKER.name, "control.beta", "roster.beta.nonce"):
        await beta.consume(queue)
    await alpha.send("brief", to="worker", exchange=MSG)
    await alpha.send("to all", to="broadcast.all", exchange=MSG)
    await alpha.send("notice", to="beta", exchange=CONTROL)
    await alpha.send("beat", to="roster.alpha._gateway", exchange=ROSTER)
    for got in await beta.take(WORKER.name, 2):
        beta.session.ack(got.tag)
    await beta.take("control.beta")
    await beta.take("roster.beta.nonce")
    await beta.session.unbind([Binding(WORKER.name, MSG, "broadcast.review")])
    await beta.session.stop_consuming(WORKER.name)
    await beta.attempt("reap", beta.session.delete_queue(WORKER.name))


async def what_belongs_to_another_host_is_refused(stage: Stage) -> None:
    beta, alpha = await _boot(stage, "beta"), await _boot(stage, "alpha")
    await alpha.send("private", to="lead", exchange=MSG)
    for queue in (LEAD.name, "control.alpha"):
        await beta.try_to_consume(queue)
        await beta.attempt(f"get {queue}", beta.session.get(queue))
        await beta.attempt(f"bind {queue}", beta.make(Binding(queue, MSG, "worker")))
        await beta.attempt(f"delete {queue}", beta.session.delete_queue(queue, if_empty=False))
    await beta.attempt("unbind", beta.session.unbind(LEAD_BINDINGS))
    other, _ = inbox_queue(HostId("gamma"), InboxQueue(Gid("other")))
    await beta.attempt("declare", beta.make(other))
    await beta.attempt("declare", beta.make(Queue("of.no.host", {})))
    await beta.attempt("delete", beta.session.delete_queue("fleet.dlq", if_empty=False))
    await alpha.count(LEAD.name)


async def nobody_speaks_in_anothers_name_or_goes_past_the_exchanges(stage: Stage) -> None:
    beta, alpha = await _boot(stage, "beta"), await _boot(stage, "alpha")
    for exchange, key in (
        (ROSTER, "roster.beta._gateway"), (ROSTER, "roster.alpha._gateway"), (ROSTER, "roster.beta"), (ROSTER, "#"),
        ("", LEAD.name), ("", WORKER.name), ("amq.topic", "lead"), (MSG, "lead"), (CONTROL, "alpha"), (OPS, "none"),
    ):  # fmt: skip
        async with stage.raw(login="beta") as raw:
            stage.tell(exchange, key, await raw.publish(exchange, key))
    await beta.wait_for_count("roster.beta.nonce", 1)
    await alpha.wait_for_count("roster.alpha.nonce", 1)
    await alpha.wait_for_count(LEAD.name, 1)


async def a_copy_goes_past_the_rights_on_keys_and_is_seen_to(stage: Stage) -> None:
    """RabbitMQ before 4.0 looks at the first key alone. So a key proves nothing, and a gateway refuses what says CC."""
    await _boot(stage, "beta")
    alpha = await _boot(stage, "alpha")
    await alpha.consume("roster.alpha.nonce")
    async with stage.raw(login="beta") as raw:
        stage.tell(await raw.publish(ROSTER, "roster.beta.x", headers={"CC": ["roster.alpha._gateway"]}))
    (got,) = await alpha.take("roster.alpha.nonce")
    stage.tell("says CC", got.headers.has_cc)


async def only_a_reporter_reads_the_dead_letters(stage: Stage) -> None:
    alpha, beta = await _boot(stage, "alpha"), await _boot(stage, "beta")
    await beta.consume(WORKER.name)
    await alpha.send("bad", to="worker", exchange=MSG)
    (got,) = await beta.take(WORKER.name)
    beta.session.reject(got.tag)
    await alpha.wait_for_count("fleet.dlq", 1)
    for queue in ("fleet.dlq", "fleet.dlq.reported"):
        await beta.try_to_consume(queue)
        await beta.attempt(f"get {queue}", beta.session.get(queue))
    await alpha.consume("fleet.dlq")
    (dead,) = await alpha.take("fleet.dlq")
    alpha.tell_deaths(dead)
    await alpha.send("bad", to="dlq.reported", exchange=OPS)
    alpha.session.ack(dead.tag)
    await alpha.wait_for_count("fleet.dlq.reported", 1)
