"""A case of the contract of transports (`transport_contract`): one promise, and the steps that cases are made of.

Every case is bounded: a transport that takes longer for one message keeps its agent's others waiting too long. Each
step that finds something else than it should raises `AssertionError`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable

import trio

from fleettrio.local.frame import FrameFacts, frame
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text, Transport
from fleettrio.testing.agents.room import until
from fleettrio.testing.bench import Agent, Bench, Situation

__all__ = ("Case", "deliver", "framed", "is_notice", "refuses", "reserve", "submit", "turns")

BOUND_S = 90.0
"""Of one case."""
BODY = "直して: `core/inbox.py` 👩🏽\u200d🚀\n  second line\twith a tab and $(touch x)\nSELECT 1;"


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One promise."""

    name: str
    promise: str
    start: Situation
    become: Situation | None
    check: Callable[[Agent, Situation | None], Awaitable[None]]

    def __str__(self) -> str:
        return self.name

    async def run(self, bench: Bench) -> None:
        """Start an agent and hold the transport to its promise. Raises `AssertionError`."""
        with trio.move_on_after(BOUND_S) as scope:
            await self.check(await bench.start(self.start), self.become)
        assert not scope.cancelled_caught, f"not within {BOUND_S:.0f} s: {self.promise}"


def framed(body: bytes | str = BODY, short_id: str = "9c41d2aa", nonce: str = "5f1c77e2") -> Text:
    """A brief of a lead on another host, as the daemon hands it to a transport."""
    facts = FrameFacts(
        sender="lead@alpha",
        is_person=False,
        verified=True,
        kind="SEND",
        intent="directive",
        age_ms=0,
        short_id=short_id,
        nonce=nonce,
        wants_reply=True,
    )
    return frame(facts, body)


def is_notice(turn: str, text: Text) -> bool:
    """Whether it is one line that names the inbox instead of the text."""
    return "\n" not in turn and text.short_id in turn and "fleettrio show" in turn


async def reserve(via: Transport) -> Reserved:
    """A reservation, once the agent is at rest again after a turn before."""
    with trio.move_on_after(BOUND_S / 3):
        while True:
            answer = await via.reserve("idle")
            if isinstance(answer, Reserved):
                return answer
            await trio.sleep(0.02)
    raise AssertionError(f"not ready: {answer}")


async def deliver(via: Transport, text: Text) -> Delivery:
    """Put it in, once the agent is at rest."""
    return await via.deliver(await reserve(via), text)


async def submit(via: Transport, text: Text) -> None:
    """The same, and a turn was seen to begin with it."""
    done = await deliver(via, text)
    assert done.outcome is DeliveryOutcome.SUBMITTED, done


async def turns(agent: Agent, count: int) -> list[str]:
    """What it took, once there are at least `count` turns."""
    await until(f"{count} turns", lambda: len(agent.turns()) >= count)
    return agent.turns()


async def refuses(agent: Agent, when: str, state: AgentState | None = None) -> None:
    """The agent takes nothing now, says why, and is left as it was."""
    via, before = agent.open(), agent.trace()
    answer = await via.reserve(when)
    assert isinstance(answer, NotReady), f"{when}: {answer}"
    assert not answer.gone, answer
    assert answer.why, "a sender is told why"
    assert state in (None, answer.state), answer
    assert agent.trace() == before
