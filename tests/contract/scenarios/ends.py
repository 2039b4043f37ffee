"""Deleted queues, cancelled consumers, alarms, consumers that hold for too long."""

from __future__ import annotations

from tests.contract.scenarios.props import make_graveyard, mortal, queue
from tests.contract.stage import Stage

HELD_MS, LOOK_MS = 1_000, 100


async def a_queue_with_messages_is_deleted_only_when_that_is_meant(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal())
    await alpha.send("1", to="inbox")
    await alpha.attempt("delete if empty", alpha.session.delete_queue("inbox"))
    await alpha.attempt("delete", alpha.session.delete_queue("inbox", if_empty=False))
    await alpha.count("inbox")
    await alpha.wait_a_moment()
    await alpha.count("dead")
    await alpha.send("2", to="inbox")


async def unacknowledged_messages_do_not_make_a_queue_full(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await make_graveyard(alpha)
    await alpha.make(mortal())
    await alpha.consume("inbox")
    await alpha.send("in hand", "in hand too", to="inbox")
    got = await alpha.take("inbox", 2)
    await beta.attempt("delete if empty", beta.session.delete_queue("inbox"))
    await alpha.event()
    alpha.session.ack(got[0].tag)
    alpha.session.reject(got[1].tag)
    await alpha.wait_a_moment()
    await alpha.count("dead")
    await alpha.make(queue())
    await alpha.count("inbox")


async def a_consumer_whose_queue_is_deleted_is_told_and_can_begin_again(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue(), queue("other"))
    await alpha.consume("inbox")
    await alpha.consume("other")
    await beta.attempt("delete", beta.session.delete_queue("inbox"))
    await alpha.event()
    await alpha.make(queue())
    await alpha.consume("inbox")
    await alpha.send("hello", to="inbox")
    await alpha.send("others go on", to="other")
    await alpha.take("inbox")
    await alpha.take("other")


async def what_was_in_hand_of_a_deleted_queue_is_gone_for_its_successor(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.consume("inbox")
    await alpha.send("old", to="inbox")
    (got,) = await alpha.take("inbox")
    await beta.attempt("delete", beta.session.delete_queue("inbox"))
    await alpha.event()
    await alpha.make(queue())
    await alpha.send("new", to="inbox")
    alpha.session.ack(got.tag)
    await alpha.consume("inbox")
    await alpha.take("inbox")
    await alpha.close()
    await beta.wait_for_count("inbox", 1)
    await beta.browse("inbox")


async def a_deletion_takes_bindings_along(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.session.delete_queue("dead")
    await alpha.make(queue("dead"))
    await alpha.send("unbound", to="", exchange="dlx")


async def an_alarm_stops_the_publisher_at_its_next_message_and_nobody_else(stage: Stage) -> None:
    alpha, beta = await stage.session("alpha"), await stage.session("beta")
    await alpha.make(queue())
    await alpha.consume("inbox")
    await alpha.send("before", to="inbox")
    (got,) = await alpha.take("inbox")
    await stage.backstage.raise_alarm()
    try:
        stuck = alpha.message("stuck", to="inbox")
        await alpha.wait_until_blocked(stuck)
        alpha.session.ack(got.tag)
        await beta.make(queue("other"))
        await beta.count("other")
        await alpha.tell_nothing_more("inbox")
    finally:
        await stage.backstage.clear_alarm()
    await alpha.event()
    await alpha.tell_verdicts(stuck)
    await alpha.take("inbox")


async def an_alarm_lets_the_message_through_that_was_read_whole(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    await stage.backstage.raise_alarm()
    try:
        passed = await alpha.publish_empty_until_blocked("inbox")
        await alpha.tell_verdicts(*passed[-1:])
        await alpha.wait_a_moment()
        alpha.tell("all of them arrived", await alpha.session.message_count("inbox") == len(passed))
        stuck = alpha.message("", to="inbox")
        alpha.session.publish([stuck])
        await alpha.wait_a_moment()
        alpha.tell("and no more", await alpha.session.message_count("inbox") == len(passed))
    finally:
        await stage.backstage.clear_alarm()
    await alpha.event()
    await alpha.tell_verdicts(stuck)


async def consumers_are_not_told_of_an_alarm(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(queue())
    await alpha.consume("inbox")
    await stage.backstage.raise_alarm()
    try:
        await alpha.tell_nothing_more("inbox")
        alpha.tell_events()
    finally:
        await stage.backstage.clear_alarm()
    await alpha.wait_a_moment()
    alpha.tell_events()
    await alpha.send("after", to="inbox")
    await alpha.take("inbox")


async def what_is_held_for_too_long_costs_its_channel_and_comes_again(stage: Stage) -> None:
    await stage.backstage.set_consumer_timeout(HELD_MS, LOOK_MS)
    try:
        alpha = await stage.session("alpha")
        await alpha.make(queue(), queue("other"))
        await alpha.consume("inbox")
        await alpha.consume("other")
        await alpha.send("1", "2", to="inbox")
        got = await alpha.take("inbox", 2)
        alpha.session.ack(got[1].tag)
        await alpha.event()
        await alpha.wait_for_count("inbox", 1)
        await alpha.consume("inbox")
        await alpha.take("inbox")
        await alpha.send("others go on", to="other")
        await alpha.take("other")
    finally:
        await stage.backstage.set_consumer_timeout(0, 0)


async def who_holds_nothing_may_wait_for_ever(stage: Stage) -> None:
    await stage.backstage.set_consumer_timeout(HELD_MS, LOOK_MS)
    try:
        alpha = await stage.session("alpha")
        await make_graveyard(alpha)
        await alpha.make(queue(), mortal("clock", message_ttl=HELD_MS + 5 * LOOK_MS))
        await alpha.consume("inbox")
        await alpha.send("tick", to="clock")
        await alpha.wait_for_count("dead", 1)
        alpha.tell_events()
        await alpha.send("hello", to="inbox")
        await alpha.take("inbox")
    finally:
        await stage.backstage.set_consumer_timeout(0, 0)


async def what_a_browser_holds_for_too_long_goes_back(stage: Stage) -> None:
    await stage.backstage.set_consumer_timeout(HELD_MS, LOOK_MS)
    try:
        alpha = await stage.session("alpha")
        await alpha.make(queue())
        await alpha.send("1", "2", to="inbox")
        (held, *_) = await alpha.browse("inbox")
        await alpha.wait_for_count("inbox", 2)
        alpha.session.ack(held.tag)
        alpha.tell_events()
        await alpha.session.release("inbox")
        await alpha.browse("inbox")
    finally:
        await stage.backstage.set_consumer_timeout(0, 0)
