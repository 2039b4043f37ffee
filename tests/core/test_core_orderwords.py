"""What is asked of a host reads as a person would type it, at both ends."""

from __future__ import annotations

import pytest

from fleettrio.core.compose import gateway_of
from fleettrio.core.orderwords import order_words
from fleettrio.core.requests import PauseAsked
from fleettrio.ids import MsgId
from fleettrio.wire.envelope import Kind
from tests.core.builders import FLEET, TRACE, Host
from tests.core.spawning import hosts, ready, spawn, spawned, stop


def at_both(sender: Host, to: Host, msg_id: MsgId) -> list[str]:
    return [sender.sent(msg_id).about, to.ledger[msg_id, gateway_of(FLEET, to.name)].about]


def test_a_start_names_the_profile_and_an_end_the_agent_also_when_it_is_gone() -> None:
    world, alpha, beta = hosts()
    started = spawn(alpha, name="w3")
    world.settle()
    ready(beta)
    world.settle()
    ended = stop(alpha, spawned(beta))
    world.settle()
    assert at_both(alpha, beta, started) == ["spawn coder as w3", "spawn coder as w3"]
    assert at_both(alpha, beta, ended) == ["stop w3@beta", "stop w3@beta"]


@pytest.mark.parametrize(
    ("target", "on", "words"),
    [("all", True, "pause --all"), ("beta", False, "resume beta"), (TRACE, True, f"pause {TRACE}")],
)
def test_a_pause_names_what_is_held(target: str, on: bool, words: str) -> None:
    world, alpha, beta = hosts("pause")
    msg_id = alpha.new_id()
    alpha.run(
        PauseAsked(
            call=alpha.call(),
            sender=alpha.gid("human"),
            host=beta.name,
            target=target,
            on=on,
            msg_id=msg_id,
            trace_id=TRACE,
        )
    )
    world.settle()
    assert at_both(alpha, beta, msg_id) == [words, words]


@pytest.mark.parametrize("kind", [Kind.SPAWN, Kind.STOP, Kind.PAUSE, Kind.SEND, "LATER"])
def test_what_is_no_order_or_cannot_be_read_has_no_words(kind: str) -> None:
    _, alpha, _ = hosts()
    assert order_words(kind, b"\xa1\x00", alpha.gateway.roster) == ""
