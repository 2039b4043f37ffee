"""Several ways into one agent: the first that is there delivers, and nobody is reached around a look that says no."""

from __future__ import annotations

import dataclasses

import pytest

from fleettrio.local.ladder import Ladder
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text

TEXT = Text("a framed text", "a notice", "9c41d2aa", "5f1c77e2")
IDLE = Reserved("1", AgentState.IDLE)
ABSENT = NotReady(AgentState.GONE, "no server answers", gone=True)


@dataclasses.dataclass
class Way:
    """A way that says what it was given to say, and remembers what it was asked to deliver."""

    name: str
    says: Reserved | NotReady = IDLE
    outcome: DeliveryOutcome = DeliveryOutcome.SUBMITTED
    wakes: bool = True
    closed: bool = False
    given: list[str] = dataclasses.field(default_factory=list)

    async def state(self) -> AgentState:
        return self.says.state

    async def reserve(self, when: str) -> Reserved | NotReady:
        return self.says

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        self.given.append(reserved.generation)
        return Delivery(self.outcome)

    async def close(self) -> None:
        self.closed = True


async def test_the_first_way_delivers_and_the_outcome_names_it() -> None:
    http, tmux = Way("http", Reserved("session:7", AgentState.IDLE)), Way("tmux")
    ladder = Ladder([http, tmux])
    reserved = await ladder.reserve("idle")
    assert isinstance(reserved, Reserved)
    done = await ladder.deliver(reserved, TEXT)
    assert (done.outcome, done.via) == (DeliveryOutcome.SUBMITTED, "http")
    assert (http.given, tmux.given) == (["session:7"], [])


async def test_a_way_that_is_not_there_is_skipped() -> None:
    http, tmux = Way("http", ABSENT), Way("tmux", Reserved("%3/7", AgentState.IDLE))
    ladder = Ladder([http, tmux])
    reserved = await ladder.reserve("idle")
    assert isinstance(reserved, Reserved)
    assert (await ladder.deliver(reserved, TEXT)).via == "tmux"
    assert (http.given, tmux.given) == ([], ["%3/7"])


@pytest.mark.parametrize("state", [AgentState.WORKING, AgentState.BLOCKED, AgentState.IDLE, AgentState.UNKNOWN])
@pytest.mark.parametrize("place", [0, 1])
async def test_who_is_not_ready_on_one_way_is_not_ready_on_all(place: int, state: AgentState) -> None:
    ways = [Way("http"), Way("tmux")]
    ways[place].says = no = NotReady(state, "a draft, a dialog or a turn")
    assert await Ladder(ways).reserve("idle") == no


async def test_a_dialog_that_one_way_sees_blocks_the_agent() -> None:
    ways = [Way("http"), Way("tmux", NotReady(AgentState.BLOCKED, "a dialog"))]
    assert await Ladder(ways).state() is AgentState.BLOCKED


@pytest.mark.parametrize(
    ("states", "seen"),
    [
        ((AgentState.GONE, AgentState.IDLE), AgentState.IDLE),
        ((AgentState.UNKNOWN, AgentState.WORKING), AgentState.WORKING),
        ((AgentState.WORKING, AgentState.IDLE), AgentState.WORKING),
        ((AgentState.GONE, AgentState.UNKNOWN), AgentState.UNKNOWN),
        ((AgentState.GONE, AgentState.GONE), AgentState.GONE),
    ],
)
async def test_its_state_is_what_the_first_way_sees_that_sees_anything(
    states: tuple[AgentState, AgentState], seen: AgentState
) -> None:
    ways = [Way(name, NotReady(state, "why")) for name, state in zip(("http", "tmux"), states, strict=True)]
    assert await Ladder(ways).state() is seen


async def test_an_agent_is_gone_when_no_way_is_left() -> None:
    answer = await Ladder([Way("http", ABSENT), Way("tmux", ABSENT)]).reserve("idle")
    assert answer == ABSENT


async def test_what_one_way_did_not_write_goes_by_no_other_way() -> None:
    http, tmux = Way("http", outcome=DeliveryOutcome.NOTHING_WRITTEN), Way("tmux")
    ladder = Ladder([http, tmux])
    reserved = await ladder.reserve("idle")
    assert isinstance(reserved, Reserved)
    assert (await ladder.deliver(reserved, TEXT)).outcome is DeliveryOutcome.NOTHING_WRITTEN
    assert tmux.given == []


async def test_a_reservation_of_a_way_that_is_no_more_writes_nothing() -> None:
    done = await Ladder([Way("tmux")]).deliver(Reserved("http:7", AgentState.IDLE), TEXT)
    assert done.outcome is DeliveryOutcome.NOTHING_WRITTEN


async def test_the_ladder_wakes_when_one_of_its_ways_does_and_lets_go_of_all() -> None:
    ways = [Way("http", wakes=False), Way("tmux")]
    ladder = Ladder(ways)
    assert (ladder.name, ladder.wakes) == ("http, tmux", True)
    assert not Ladder(ways[:1]).wakes
    await ladder.close()
    assert [way.closed for way in ways] == [True, True]
