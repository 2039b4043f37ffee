"""Expiry, rejection, and what the dead letters say of them."""

from __future__ import annotations

from fleettrio.broker.model.message import Value
from fleettrio.core.topology import Binding, Exchange
from tests.contract.scenarios.props import DEAD_BINDING, DLX, make_graveyard, mortal, queue
from tests.contract.stage import Stage, death_table

SHORT_MS, LONG_MS = 150, 60_000
ENOUGH_MS = 1_000
"""A life in which a step or two find their time, also on a busy machine."""


async def a_queue_lets_its_messages_expire(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal(message_ttl=SHORT_MS))
    await alpha.send("1", "2", to="inbox")
    await alpha.wait_for_count("dead", 2)
    await alpha.count("inbox")
    await alpha.bury("dead")


async def a_message_brings_its_own_expiry(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal())
    await alpha.send("dies", to="inbox", expiration_ms=SHORT_MS)
    await alpha.send("lives", to="inbox")
    await alpha.wait_for_count("dead", 1)
    await alpha.bury("dead")
    await alpha.browse("inbox")


async def the_shorter_of_two_lives_counts(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal("short", message_ttl=SHORT_MS), mortal("long", message_ttl=LONG_MS))
    await alpha.send("by its queue", to="short", expiration_ms=LONG_MS)
    await alpha.wait_for_count("dead", 1)
    await alpha.send("by itself", to="long", expiration_ms=SHORT_MS)
    await alpha.wait_for_count("dead", 2)
    await alpha.bury("dead")


async def what_has_expired_behind_a_live_message_stays_and_is_counted(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal(), mortal("clock", message_ttl=2 * SHORT_MS))
    await alpha.send("lives", to="inbox")
    await alpha.send("hidden", to="inbox", expiration_ms=SHORT_MS)
    await alpha.send("tick", to="clock")
    await alpha.wait_for_count("dead", 1)
    await alpha.count("inbox")
    await alpha.consume("inbox", prefetch=1)
    await alpha.take("inbox")
    await alpha.wait_for_count("dead", 2)
    await alpha.count("inbox")
    await alpha.bury("dead")


async def in_hand_nothing_expires_but_given_back_it_does(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal(), mortal("clock", message_ttl=ENOUGH_MS + SHORT_MS))
    await alpha.send("mine", to="inbox", expiration_ms=ENOUGH_MS)
    await alpha.browse("inbox")
    await alpha.send("tick", to="clock")
    await alpha.wait_for_count("dead", 1)
    await alpha.session.release("inbox")
    await alpha.wait_for_count("dead", 2)
    await alpha.bury("dead")


async def a_life_of_nothing_is_enough_for_a_waiting_consumer(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal())
    async with stage.raw() as raw:
        stage.tell(await raw.publish("", "inbox", b"nobody waits", expiration="0", mandatory=True))
        await alpha.wait_for_count("dead", 1)
        await alpha.consume("inbox")
        stage.tell(await raw.publish("", "inbox", b"somebody waits", expiration="0", mandatory=True))
        await alpha.take("inbox")
    await alpha.bury("dead")


async def an_expired_message_does_not_fill_its_queue(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal(max_length=1, overflow="reject-publish"))
    await alpha.send("dies", to="inbox", expiration_ms=ENOUGH_MS)
    await alpha.send("too early", to="inbox")
    await alpha.wait_for_count("dead", 1)
    await alpha.send("in time", to="inbox")


async def a_rejected_message_dies_with_everything_it_had(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal(), Binding("inbox", "amq.topic", "to.me"))
    headers: dict[str, bytes | str] = {"fleet": b"header", "sig": b"s" * 64, "proof": b"p", "kind": "SEND"}
    await alpha.publish(alpha.message("hello", to="to.me", exchange="amq.topic", headers=headers))
    await alpha.consume("inbox")
    (got,) = await alpha.take("inbox")
    alpha.session.reject(got.tag)
    await alpha.wait_for_count("dead", 1)
    (dead,) = await alpha.bury("dead")
    stage.tell([str(dead.headers.fleet), str(dead.headers.sig), str(dead.headers.proof)], dead.headers.problem)


async def the_dead_keep_their_order(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal())
    await alpha.send(*[f"{number}" for number in range(5)], to="inbox")
    await alpha.consume("inbox")
    for got in await alpha.take("inbox", 5):
        alpha.session.reject(got.tag)
    await alpha.wait_for_count("dead", 5)
    await alpha.bury("dead")


async def dying_the_same_way_again_is_counted(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(DLX, mortal(), Binding("inbox", "dlx", ""))
    await alpha.send("phoenix", to="inbox")
    await alpha.consume("inbox")
    for _ in range(3):
        (got,) = await alpha.take("inbox")
        alpha.tell_deaths(got)
        alpha.session.reject(got.tag)
    (got,) = await alpha.take("inbox")
    alpha.tell_deaths(got)


async def the_latest_death_stands_first(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(
        Exchange("first", "fanout"), Exchange("second", "fanout"), queue("inbox", dead_letter_exchange="first"),
        queue("limbo", dead_letter_exchange="second", message_ttl=SHORT_MS), queue("dead"),
        Binding("limbo", "first", ""), Binding("dead", "second", ""),
    )  # fmt: skip
    await alpha.send("twice", to="inbox")
    await alpha.consume("inbox")
    (got,) = await alpha.take("inbox")
    alpha.session.reject(got.tag)
    await alpha.wait_for_count("dead", 1)
    await alpha.bury("dead")


async def a_circle_that_nobody_breaks_ends_the_message(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal(message_ttl=SHORT_MS), Binding("inbox", "dlx", ""))
    await alpha.send("round", to="inbox")
    await alpha.wait_for_count("dead", 1)
    await alpha.count("inbox")


async def a_rejection_makes_a_circle_legal(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(DLX, mortal("inbox"), mortal("limbo", message_ttl=SHORT_MS))
    await alpha.make(Exchange("back", "fanout"), queue("waiting", dead_letter_exchange="back", message_ttl=SHORT_MS))
    await alpha.make(
        queue("work", dead_letter_exchange="dlx"), Binding("waiting", "dlx", ""), Binding("work", "back", "")
    )
    await alpha.send("again", to="work")
    await alpha.consume("work")
    for _ in range(2):
        (got,) = await alpha.take("work")
        alpha.session.reject(got.tag)
    (got,) = await alpha.take("work")
    alpha.tell_deaths(got)


async def dead_letters_that_do_not_fit_are_lost(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(DLX, queue("dead", max_length=1, overflow="reject-publish"), DEAD_BINDING, mortal())
    await alpha.send("1", "2", to="inbox")
    await alpha.consume("inbox")
    for got in await alpha.take("inbox", 2):
        alpha.session.reject(got.tag)
    await alpha.wait_for_count("dead", 1)
    await alpha.wait_a_moment()
    await alpha.bury("dead")


async def a_death_that_a_publisher_made_up_stays_beneath_the_true_one(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal())
    forged: list[Value] = [{"reason": "expired", "queue": "elsewhere", "count": 7, "exchange": "none"}]
    async with stage.raw() as raw:
        stage.tell(await raw.publish("", "inbox", b"forged", headers={"x-death": forged}))
    await alpha.consume("inbox")
    (got,) = await alpha.take("inbox")
    alpha.tell_deaths(got)
    alpha.session.reject(got.tag)
    await alpha.wait_for_count("dead", 1)
    await alpha.bury("dead")


async def a_made_up_death_in_the_same_queue_is_counted_on(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal())
    forged: list[Value] = [{"reason": "rejected", "queue": "inbox", "count": 7, "exchange": "made up"}]
    async with stage.raw() as raw:
        stage.tell(await raw.publish("", "inbox", b"forged", headers={"x-death": forged}))
    await alpha.consume("inbox")
    (got,) = await alpha.take("inbox")
    alpha.session.reject(got.tag)
    await alpha.wait_for_count("dead", 1)
    await alpha.bury("dead")


async def a_death_of_another_form_is_thrown_away(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal())
    async with stage.raw() as raw:
        stage.tell(await raw.publish("", "inbox", b"forged", headers={"x-death": "nonsense"}))
    await alpha.consume("inbox")
    (got,) = await alpha.take("inbox")
    alpha.session.reject(got.tag)
    await alpha.wait_for_count("dead", 1)
    await alpha.bury("dead")


async def the_whole_note_of_a_death(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await make_graveyard(alpha)
    await alpha.make(mortal(), Binding("inbox", "amq.topic", "#"))
    async with stage.raw() as raw:
        stage.tell(await raw.publish("amq.topic", "to.me", b"dies", expiration=f"{SHORT_MS}", headers={"CC": ["copy"]}))
    await alpha.wait_for_count("dead", 1)
    (dead,) = await alpha.bury("dead")
    for line in death_table(dead.headers.x_death):
        stage.tell(*line)


async def the_whole_note_of_a_death_that_is_counted_on(stage: Stage) -> None:
    alpha = await stage.session("alpha")
    await alpha.make(DLX, mortal(), Binding("inbox", "dlx", ""))
    await alpha.send("phoenix", to="inbox")
    await alpha.consume("inbox")
    for _ in range(2):
        (got,) = await alpha.take("inbox")
        alpha.session.reject(got.tag)
    (got,) = await alpha.take("inbox")
    for line in death_table(got.headers.x_death):
        stage.tell(*line)
