"""Nudges: one line for a client in a pane whose mail waits, at its times, never twice, never in the way of anybody."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.nudges import NUDGE, Nudged
from tests.core.builders import Host, World, agent, pair


@dataclasses.dataclass
class Desk:
    """alpha's lead, which fetches its mail and sits in a pane."""

    world: World
    host: Host
    other: Host
    lines: list[tuple[float, tuple[tuple[str, int], ...]]] = dataclasses.field(default_factory=list)
    outcome: str = "submitted"

    def mail(self, sender: str = "worker") -> None:
        self.other.send("lead@alpha", sender=sender)
        self.world.settle()

    def state(self, status: str) -> None:
        self.typed(self.host.run(ev.AgentSeen(self.host.gid("lead"), status, looked=True)))

    def typed(self, actions: list[do.Action]) -> None:
        """What the agent's task does: each line is written, or not."""
        for action in actions:
            if isinstance(action, do.Nudge):
                self.lines.append((self.host.clock.mono, action.waiting))
                self.host.run(Nudged(action.gid, self.outcome))

    def wait(self, seconds: float) -> int:
        """Let time pass; how many lines were typed."""
        before, end = len(self.lines), self.host.clock.mono + seconds
        while (due := self.host.gateway.next_deadline()) is not None and due <= end:
            self.host.clock.advance(max(0.0, due - self.host.clock.mono))
            self.typed(self.host.expire())
        self.host.clock.advance(end - self.host.clock.mono)
        return len(self.lines) - before

    def gaps(self) -> list[float]:
        """Seconds between the lines."""
        at = [moment for moment, _ in self.lines]
        return [round(later - earlier) for earlier, later in itertools.pairwise(at)]

    def restart(self) -> None:
        """The daemon dies and starts again."""
        self.typed(self.host.start())
        self.host.open()


@pytest.fixture
def desk() -> Desk:
    world, alpha, beta = pair()
    lead = agent("lead", "alpha", takes="pull", transport="pull", target="%7")
    alpha.run(ev.Attached(alpha.call(), lead))
    return Desk(world, alpha, beta)


def test_what_comes_together_is_counted_by_sender_in_one_line(desk: Desk) -> None:
    desk.other.run(ev.Attached(desk.other.call(), agent("tester", "beta")))
    for sender in ("worker", "tester", "worker"):
        desk.mail(sender)
    assert desk.wait(2) == 1
    ((_, waiting),) = desk.lines
    assert waiting[0] == ("worker@beta", 2)
    assert waiting[1][1] == 1


def test_it_is_told_again_after_30_s_and_1_2_4_8_minutes_and_then_no_more(desk: Desk) -> None:
    desk.mail()
    assert desk.wait(1_800) == 6
    assert desk.gaps() == [30, 60, 120, 240, 480]
    assert desk.wait(7_200) == 0


def test_what_comes_meanwhile_brings_no_line_of_its_own(desk: Desk) -> None:
    desk.mail()
    desk.wait(5)
    for _ in range(3):
        desk.mail()
    assert desk.wait(20) == 0
    desk.wait(10)
    assert desk.lines[-1][1] == (("worker@beta", 4),)


def test_once_it_fetched_nothing_is_typed_any_more(desk: Desk) -> None:
    desk.mail()
    desk.wait(40)
    assert len(desk.lines) == 2
    desk.host.take("lead")
    assert desk.host.dues == {}
    assert desk.wait(3_600) == 0
    desk.mail()
    assert desk.wait(2) == 1


def test_what_it_left_lying_as_it_fetched_begins_anew_in_30_s(desk: Desk) -> None:
    desk.other.run(ev.Attached(desk.other.call(), agent("tester", "beta")))
    desk.mail()
    desk.mail("tester")
    desk.wait(100)
    desk.host.pull("lead", sender=desk.other.gid("tester"))
    assert desk.wait(29) == 0
    assert desk.wait(2) == 1


@pytest.mark.parametrize("status", ["working", "blocked", "away"])
def test_nothing_is_typed_while_it_is_busy_and_the_line_comes_as_it_is_idle(desk: Desk, status: str) -> None:
    desk.state(status)
    desk.mail()
    assert desk.wait(300) == 0
    desk.state("idle")
    assert desk.wait(0) == 1
    assert desk.wait(31) == 1


def test_a_line_that_could_not_be_typed_is_tried_again_and_uses_up_no_step(desk: Desk) -> None:
    desk.outcome = "nothing-written"
    desk.mail()
    desk.wait(35)
    assert desk.gaps() == [10, 10, 10]
    desk.outcome = "unconfirmed"
    desk.wait(1_800)
    assert desk.gaps()[4:] == [30, 60, 120, 240, 480]


def test_while_nobody_knows_what_came_of_a_line_there_is_no_other(desk: Desk) -> None:
    desk.mail()
    desk.host.clock.advance(1)
    (nudge,) = [action for action in desk.host.expire() if isinstance(action, do.Nudge)]
    desk.mail()
    desk.state("working")
    desk.state("idle")
    assert desk.wait(3_600) == 0
    desk.host.run(Nudged(nudge.gid, "submitted"))
    assert desk.wait(1) == 1


def test_the_times_are_kept_over_a_restart(desk: Desk) -> None:
    desk.mail()
    desk.wait(40)
    assert len(desk.lines) == 2
    desk.restart()
    assert desk.wait(45) == 0
    assert desk.wait(10) == 1
    assert desk.gaps() == [30, 60]


def test_a_time_that_passed_while_no_daemon_ran_comes_once_at_the_start(desk: Desk) -> None:
    desk.mail()
    desk.wait(5)
    desk.host.clock.advance(4_000)
    desk.restart()
    assert desk.wait(1) == 1
    desk.restart()
    assert desk.wait(1) == 0


def test_a_crash_between_the_mark_and_the_line_never_makes_two(desk: Desk) -> None:
    desk.mail()
    desk.host.clock.advance(1)
    assert [action for action in desk.host.expire() if isinstance(action, do.Nudge)]
    desk.restart()
    assert desk.wait(25) == 0
    assert desk.wait(10) == 1


def test_one_that_had_all_its_lines_gets_none_after_a_restart(desk: Desk) -> None:
    desk.mail()
    desk.wait(1_800)
    desk.restart()
    assert desk.wait(3_600) == 0
    assert [due.what for due in desk.host.dues.values()] == [NUDGE]


def test_one_that_fetched_while_the_daemon_was_new_is_not_nudged(desk: Desk) -> None:
    desk.mail()
    desk.wait(5)
    desk.restart()
    desk.host.take("lead")
    assert desk.wait(3_600) == 0
    assert desk.host.dues == {}


def test_what_is_held_as_a_loop_or_paused_is_not_nudged_for(desk: Desk) -> None:
    desk.host.run(ev.AgentSeen(desk.host.gid("lead"), "idle"))
    for _ in range(40):
        desk.mail()
        desk.host.take("lead")
        if desk.host.gateway.ledger.lane(desk.host.gid("lead")).count:
            break
        msg_id = desk.host.send("worker@beta", sender="lead")
        desk.world.settle()
        if not desk.other.row(msg_id, "worker").held:
            desk.other.put_in(msg_id, "worker")
            desk.other.run(ev.AgentSeen(desk.other.gid("worker"), "idle"))
    assert desk.host.gateway.ledger.lane(desk.host.gid("lead")).count == 1
    assert desk.wait(100) == 0


def test_a_client_without_a_pane_and_an_agent_that_is_pushed_into_are_never_nudged() -> None:
    world, alpha, beta = pair()
    desk = Desk(world, alpha, beta)
    desk.mail()
    assert desk.wait(600) == 0
    alpha.send("worker@beta")
    world.settle()
    assert [a for a in beta.wait(600) if isinstance(a, do.Nudge)] == []


def test_a_client_that_is_gone_for_good_takes_its_nudges_along(desk: Desk) -> None:
    desk.mail()
    desk.wait(5)
    desk.host.run(ev.Detached(desk.host.call(), desk.host.gid("lead"), forget=True))
    assert desk.host.dues == {}
    assert desk.wait(600) == 0


def test_while_the_store_takes_nothing_no_line_is_typed(desk: Desk) -> None:
    desk.mail()
    desk.host.broken = True
    desk.host.wait(5)  # what it decided was not recorded, so no line was handed over
    desk.host.broken = False
    desk.host.run(ev.StoreRecovered())
    assert desk.wait(11) == 1
    assert desk.wait(30) == 1
