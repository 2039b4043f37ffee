"""Who may consume and who may declare: 403, 404, 405, 406."""

from __future__ import annotations

import msgspec

from fleettrio.core.topology import Binding, Exchange, Queue
from tests.contract.scenarios.props import queue
from tests.contract.stage import Stage

PRIVATE = Queue("private", {}, durable=False, exclusive=True, auto_delete=True)


async def a_second_exclusive_consumer_is_refused_and_the_first_goes_on(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.consume("inbox")
    await beta.try_to_consume("inbox")
    await beta.try_to_consume("inbox", exclusive=False)
    await beta.send("hello", to="inbox")
    await alpha.take("inbox")


async def nobody_consumes_exclusively_beside_another(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.consume("inbox", exclusive=False)
    await beta.try_to_consume("inbox")
    await beta.try_to_consume("inbox", exclusive=False)


async def a_lock_that_was_let_go_can_be_taken(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.consume("inbox")
    await beta.try_to_consume("inbox")
    await alpha.session.stop_consuming("inbox")
    await beta.try_to_consume("inbox")
    await alpha.try_to_consume("inbox")


async def a_lost_connection_lets_its_locks_go(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha", lossy=True), await stage.session("beta")
    await beta.make(queue())
    await alpha.consume("inbox")
    await beta.try_to_consume("inbox")
    await alpha.lose()
    await beta.wait_until_free("inbox")
    await beta.try_to_consume("inbox")


async def an_exclusive_queue_is_locked_for_all_others(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(PRIVATE, Binding("private", "amq.topic", "bound"))
    await beta.attempt("declare", beta.make(PRIVATE))
    await beta.attempt("declare open", beta.make(msgspec.structs.replace(PRIVATE, exclusive=False)))
    await beta.try_to_consume("private")
    await beta.attempt("count", beta.session.message_count("private"))
    await beta.attempt("get", beta.session.get("private"))
    await beta.attempt("bind", beta.make(Binding("private", "amq.topic", "key")))
    await beta.attempt("unbind what is not", beta.session.unbind([Binding("private", "amq.topic", "key")]))
    await beta.attempt("unbind", beta.session.unbind([Binding("private", "amq.topic", "bound")]))
    await beta.attempt("delete", beta.session.delete_queue("private"))
    await beta.send("anybody may publish", to="private")
    await alpha.consume("private")
    await alpha.take("private")


async def a_queue_of_all_is_no_exclusive_one(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(msgspec.structs.replace(PRIVATE, exclusive=False))
    await alpha.attempt("declare", alpha.make(PRIVATE))


async def an_exclusive_queue_goes_with_its_connection(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(PRIVATE)
    await alpha.send("goes with it", to="private")
    await alpha.close()
    await beta.count("private")
    await beta.make(PRIVATE)
    await beta.count("private")


async def an_auto_delete_queue_goes_with_its_last_consumer(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(msgspec.structs.replace(PRIVATE, exclusive=False))
    await alpha.consume("private", exclusive=False)
    await beta.consume("private", exclusive=False)
    await alpha.session.stop_consuming("private")
    await beta.count("private")
    await beta.session.stop_consuming("private")
    await alpha.count("private")


async def other_arguments_are_a_mismatch(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue(max_length=5, overflow="reject-publish"))
    for other in (
        queue(max_length=6, overflow="reject-publish"),
        queue(max_length=5),
        queue(max_length=5, overflow="drop-head"),
        queue(max_length=5, overflow="reject-publish", message_ttl=1000),
        queue(max_length=5, overflow="reject-publish", dead_letter_exchange="dlx"),
        msgspec.structs.replace(queue(max_length=5, overflow="reject-publish"), durable=False),
        msgspec.structs.replace(queue(max_length=5, overflow="reject-publish"), auto_delete=True),
    ):
        await alpha.attempt("declare", alpha.make(other))
    await alpha.attempt("declare again", alpha.make(queue(max_length=5, overflow="reject-publish")))


async def after_a_mismatch_consumers_go_on(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    await alpha.consume("inbox")
    await alpha.attempt("declare", alpha.make(queue(max_length=5)))
    await alpha.send("hello", to="inbox")
    await alpha.take("inbox")


async def an_exchange_of_another_kind_is_found_all_the_same(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(Exchange("letters", "topic"))
    await alpha.attempt("look for it", alpha.make(Exchange("letters", "fanout")))


async def what_does_not_exist_is_told_apart(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.count("nowhere")
    await alpha.attempt("delete", alpha.session.delete_queue("nowhere"))
    await alpha.attempt("unbind", alpha.session.unbind([Binding("nowhere", "amq.topic", "key")]))
    await alpha.attempt("bind", alpha.make(Binding("nowhere", "amq.topic", "key")))
    await alpha.try_to_consume("nowhere")
    await alpha.attempt("get", alpha.session.get("nowhere"))
    await alpha.make(queue())
    await alpha.attempt("bind", alpha.make(Binding("inbox", "nowhere", "key")))
    await alpha.attempt("unbind", alpha.session.unbind([Binding("inbox", "nowhere", "key")]))
    await alpha.attempt("unbind what was not bound", alpha.session.unbind([Binding("inbox", "amq.topic", "key")]))
