"""What consumers get: order, redelivery, prefetch, tags, browsing."""

from __future__ import annotations

from tests.contract.scenarios.props import make_graveyard, mortal, queue
from tests.contract.stage import Stage


async def a_backlog_comes_in_order_and_what_follows_behind_it(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    await alpha.send("1", "2", "3", to="inbox")
    await alpha.consume("inbox")
    await alpha.send("4", "5", to="inbox")
    await alpha.take("inbox", 5)
    await alpha.tell_nothing_more("inbox")


async def what_was_in_hand_at_a_loss_comes_again_in_order_before_the_rest(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha", lossy=True), await stage.session("beta")
    await beta.make(queue())
    await beta.send("1", "2", "3", "4", "5", to="inbox")
    await alpha.consume("inbox", prefetch=3)
    await alpha.take("inbox", 3)
    await alpha.lose()
    await beta.wait_for_count("inbox", 5)
    await beta.consume("inbox")
    await beta.take("inbox", 5)


async def an_acknowledged_message_does_not_come_again(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.send("1", "2", "3", to="inbox")
    await alpha.consume("inbox")
    got = await alpha.take("inbox", 3)
    alpha.session.ack(got[0].tag)
    alpha.session.ack(got[2].tag)
    await alpha.close()
    await beta.wait_for_count("inbox", 1)
    await beta.consume("inbox")
    await beta.take("inbox")


async def what_is_given_back_takes_its_place_again(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    await alpha.send("1", "2", "3", "4", "5", to="inbox")
    await alpha.consume("inbox", prefetch=4)
    got = await alpha.take("inbox", 4)
    await alpha.session.stop_consuming("inbox", requeue=[got[3].tag, got[1].tag])
    await alpha.wait_for_count("inbox", 3)
    await alpha.consume("inbox")
    await alpha.take("inbox", 3)
    alpha.session.ack(got[0].tag)
    await alpha.tell_nothing_more("inbox")


async def what_is_given_back_to_a_full_queue_pushes_its_oldest_out(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal(max_length=2, overflow="drop-head"))
    await alpha.send("1", "2", to="inbox")
    await alpha.browse("inbox")
    await alpha.send("3", to="inbox")
    await alpha.session.release("inbox")
    await alpha.wait_for_count("dead", 1)
    await alpha.bury("dead")
    await alpha.browse("inbox")


async def who_had_no_room_stands_last_in_the_round(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.consume("inbox", prefetch=1, exclusive=False)
    await beta.consume("inbox", prefetch=5, exclusive=False)
    await alpha.send("1", "2", "3", to="inbox")
    (got,) = await alpha.take("inbox")
    await beta.take("inbox", 2)
    alpha.session.ack(got.tag)
    await alpha.wait_a_moment()
    await alpha.send("4", "5", to="inbox")
    await beta.take("inbox")
    await alpha.take("inbox")


async def what_one_consumer_gives_back_another_gets(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.consume("inbox", prefetch=2, exclusive=False)
    await alpha.send("1", "2", to="inbox")
    got = await alpha.take("inbox", 2)
    await beta.consume("inbox", exclusive=False)
    await alpha.session.stop_consuming("inbox", requeue=[each.tag for each in got])
    await beta.take("inbox", 2)


async def consumers_take_turns(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.consume("inbox", exclusive=False)
    await beta.consume("inbox", exclusive=False)
    for number in range(4):
        await alpha.send(f"{number}", to="inbox")
    await alpha.take("inbox", 2)
    await beta.take("inbox", 2)


async def no_more_than_the_prefetch_is_in_hand(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    await alpha.send(*[f"{number}" for number in range(6)], to="inbox")
    await alpha.consume("inbox", prefetch=3)
    got = await alpha.take("inbox", 3)
    await alpha.tell_nothing_more("inbox")
    await alpha.count("inbox")
    alpha.session.ack(got[1].tag)
    await alpha.take("inbox")
    await alpha.tell_nothing_more("inbox")
    alpha.session.reject(got[0].tag)
    await alpha.take("inbox")
    await alpha.count("inbox")


async def each_consumer_has_its_own_prefetch(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue("a"), queue("b"))
    await alpha.consume("a", prefetch=1)
    await alpha.consume("b", prefetch=2)
    await alpha.send("a1", "a2", "a3", to="a")
    await alpha.send("b1", "b2", "b3", to="b")
    await alpha.take("a", 1)
    await alpha.take("b", 2)
    await alpha.tell_nothing_more("a", "b")
    await alpha.count("a")
    await alpha.count("b")


async def a_consumer_without_room_leaves_the_rest_to_others(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.consume("inbox", prefetch=1, exclusive=False)
    await beta.consume("inbox", prefetch=5, exclusive=False)
    await alpha.send("1", "2", "3", "4", to="inbox")
    await alpha.take("inbox", 1)
    await beta.take("inbox", 3)


async def an_unknown_tag_closes_its_channel_and_gives_everything_back(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue(), queue("other"))
    await alpha.consume("inbox")
    await alpha.consume("other")
    await alpha.send("1", "2", to="inbox")
    got = await alpha.take("inbox", 2)
    alpha.session.ack(got[0].tag)
    alpha.session.ack(got[0].tag)
    await alpha.event()
    await alpha.wait_for_count("inbox", 1)
    await alpha.consume("inbox")
    await alpha.take("inbox")
    await alpha.send("others go on", to="other")
    await alpha.take("other")


async def what_is_kept_when_consuming_stops_can_still_be_settled(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal())
    await alpha.send("1", "2", "3", to="inbox")
    await alpha.consume("inbox", prefetch=2)
    got = await alpha.take("inbox", 2)
    await alpha.session.stop_consuming("inbox")
    await alpha.count("inbox")
    alpha.session.ack(got[0].tag)
    alpha.session.reject(got[1].tag)
    await alpha.wait_for_count("dead", 1)
    await alpha.count("inbox")
    await alpha.bury("dead")


async def a_settled_message_makes_no_room_once_consuming_has_stopped(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    await alpha.send("1", "2", to="inbox")
    await alpha.consume("inbox", prefetch=1)
    (got,) = await alpha.take("inbox")
    await alpha.session.stop_consuming("inbox")
    alpha.session.ack(got.tag)
    await alpha.tell_nothing_more("inbox")
    await alpha.count("inbox")


async def browsing_takes_from_the_head_and_gives_back_in_order(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    await alpha.send("1", "2", "3", to="inbox")
    got = await alpha.browse("inbox")
    await alpha.count("inbox")
    alpha.session.ack(got[1].tag)
    await alpha.session.release("inbox")
    await alpha.browse("inbox")


async def browsing_needs_no_lock_and_counts_against_no_prefetch(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.consume("inbox", prefetch=1)
    await alpha.send("1", "2", "3", to="inbox")
    await alpha.take("inbox")
    await alpha.wait_for_count("inbox", 2)
    await beta.browse("inbox")
    await beta.session.release("inbox")
    await beta.wait_for_count("inbox", 2)


async def what_a_browser_gives_back_goes_to_the_waiting_consumer(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.send("1", "2", to="inbox")
    await beta.browse("inbox")
    await alpha.consume("inbox")
    await alpha.tell_nothing_more("inbox")
    await beta.session.release("inbox")
    await alpha.take("inbox", 2)


async def a_header_arrives_as_it_was_sent(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    headers: dict[str, bytes | str] = {
        "fleet": bytes(range(256)), "sig": b"s" * 64, "proof": b"\0\1", "hop": b"h", "fleet-id": "dev", "kind": "SEND",
    }  # fmt: skip
    await alpha.publish(alpha.message("hello", to="inbox", headers=headers))
    (got,) = await alpha.browse("inbox")
    fields = got.headers
    stage.tell([str(fields.fleet == bytes(range(256))), str(fields.sig), str(fields.proof), str(fields.hop)])
    stage.tell(fields.fleet_id, fields.has_cc, fields.problem)
