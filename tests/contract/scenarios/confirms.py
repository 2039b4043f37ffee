"""Verdicts of publishes: confirms, returns, nacks."""

from __future__ import annotations

from fleettrio.core.topology import Binding, Exchange
from tests.contract.scenarios.props import make_graveyard, mortal, queue, refusing
from tests.contract.stage import Stage


async def a_routed_message_is_confirmed_and_arrives(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    await alpha.send("hello", to="inbox")
    await alpha.consume("inbox")
    await alpha.take("inbox")


async def the_return_comes_before_the_confirm(stage: Stage) -> None:
    async with stage.raw() as raw:
        stage.tell(await raw.publish("", "nobody", mandatory=True))
        stage.tell(await raw.publish("amq.topic", "nobody", mandatory=True))


async def without_mandatory_what_nobody_takes_is_confirmed(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.publish(alpha.message("lost", to="nobody", mandatory=False))
    async with stage.raw() as raw:
        stage.tell(await raw.publish("amq.topic", "nobody"))


async def returns_and_confirms_of_a_burst_keep_to_their_messages(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    burst = [alpha.message(f"{n}", to="inbox" if n % 3 else "nobody") for n in range(12)]
    await alpha.publish(*burst)
    await alpha.wait_for_count("inbox", 8)


async def an_exchange_that_does_not_exist_ends_the_publishing(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.publish(alpha.message("lost", to="inbox", exchange="nowhere"))
    await alpha.end()
    async with stage.raw() as raw:
        stage.tell(await raw.publish("nowhere", "key"))


async def what_follows_a_refused_publish_has_no_outcome(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    await alpha.publish(alpha.message("lost", to="inbox", exchange="nowhere"), alpha.message("behind it", to="inbox"))
    beta = await stage.session("beta")
    await beta.count("inbox")


async def a_full_queue_nacks(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(refusing(max_length=2))
    await alpha.send("1", "2", "3", to="inbox")
    await alpha.count("inbox")


async def a_queue_full_by_bytes_nacks_what_is_too_large_and_takes_what_fits(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(refusing(max_length_bytes=10))
    await alpha.send("12345678", to="inbox")
    await alpha.send("123", to="inbox")
    await alpha.send("12", to="inbox")
    await alpha.send("1", to="inbox")


async def one_full_of_several_nacks_and_the_others_keep_their_copy(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(
        Exchange("all", "fanout"),
        queue("first"), refusing("full", max_length=1), queue("last"),
        *[Binding(name, "all", "") for name in ("first", "full", "last")],
    )  # fmt: skip
    await alpha.send("fills", to="full")
    await alpha.send("to all", to="", exchange="all")
    for name in ("first", "full", "last"):
        await alpha.wait_for_count(name, 1)
    await alpha.consume("last")
    await alpha.take("last")


async def a_nack_is_no_return(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(refusing(max_length=1))
    async with stage.raw() as raw:
        stage.tell(await raw.publish("", "inbox", mandatory=True))
        stage.tell(await raw.publish("", "inbox", mandatory=True))


async def only_ready_messages_count_against_the_limit(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(refusing(max_length=1))
    await alpha.consume("inbox")
    await alpha.send("in hand", to="inbox")
    await alpha.take("inbox")
    await alpha.session.stop_consuming("inbox")
    await alpha.send("waits", "too much", to="inbox")


async def a_queue_has_room_again_when_its_head_is_taken(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(refusing(max_length=1))
    await alpha.send("1", "too much", to="inbox")
    (head,) = await alpha.browse("inbox")
    await alpha.send("2", to="inbox")
    alpha.session.ack(head.tag)
    await alpha.session.release("inbox")
    await alpha.count("inbox")


async def a_requeue_may_overfill_a_queue(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(refusing(max_length=1))
    await alpha.send("1", to="inbox")
    await alpha.browse("inbox")
    await alpha.send("2", to="inbox")
    await alpha.session.release("inbox")
    await alpha.wait_for_count("inbox", 2)
    await alpha.send("3", to="inbox")


async def a_queue_without_room_refuses_even_with_a_consumer(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(refusing(max_length=0))
    await alpha.consume("inbox")
    await alpha.send("hello", to="inbox")
    await alpha.tell_nothing_more("inbox")


async def what_is_refused_is_not_dead_lettered(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal(overflow="reject-publish", max_length=1))
    await alpha.send("1", "2", to="inbox")
    await alpha.wait_a_moment()
    await alpha.count("dead")


async def a_queue_that_drops_buries_its_oldest(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal(overflow="drop-head", max_length=2))
    await alpha.send("1", "2", "3", "4", to="inbox")
    await alpha.wait_for_count("dead", 2)
    await alpha.bury("dead")
    await alpha.browse("inbox")


async def dropping_is_what_a_queue_does_unless_told(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue(max_length=1))
    await alpha.send("1", "2", to="inbox")
    await alpha.browse("inbox")


async def dropping_by_bytes_drops_as_many_as_it_takes(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal(overflow="drop-head", max_length_bytes=10))
    await alpha.send("1234", "5678", to="inbox")
    await alpha.send("123456789", to="inbox")
    await alpha.wait_for_count("dead", 2)
    await alpha.bury("dead")
    await alpha.send("this is larger than the queue", to="inbox")
    await alpha.wait_for_count("inbox", 0)
    await alpha.wait_for_count("dead", 4)
