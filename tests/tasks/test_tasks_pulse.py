"""A process that was frozen or asleep: noticed, nothing in hand is committed, and the session is made anew."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from fleettrio.broker.memory import MemoryBroker
from fleettrio.clock import Pulse, Standstill, since_boot, standstill_limit
from fleettrio.core.topology import InboxQueue, inbox_queue
from fleettrio.ids import Seconds
from fleettrio.observe import COUNTERS
from fleettrio.tasks.pulse import run_pulse
from tests.tasks.shell import two, until, until_stored


class Machine:
    """The clocks of a machine that sleeps when it is told to."""

    def __init__(self) -> None:
        self.boot, self.slept = 1_000.0, 0.0

    def read(self) -> tuple[Seconds, Seconds]:
        return Seconds(self.boot), Seconds(self.slept)

    def freeze(self, seconds: float) -> None:
        self.boot += seconds

    def suspend(self, seconds: float) -> None:
        self.boot += seconds
        self.slept += seconds


def test_the_clocks_of_this_machine_are_read() -> None:
    boot, slept = since_boot()
    assert boot > slept >= 0
    assert Pulse(15.0).tick() is None


def test_a_freeze_is_a_standstill_past_its_limit_and_any_sleep_is_one() -> None:
    machine = Machine()
    pulse = Pulse(15.0, machine.read)
    machine.freeze(Pulse.EVERY_S + 14)
    assert not pulse.is_in_doubt
    assert pulse.tick() is None
    machine.freeze(Pulse.EVERY_S + 16)
    assert pulse.tick() == Standstill(16.0, 0.0)
    machine.suspend(5)
    assert pulse.tick() == Standstill(5.0, 5.0)


@pytest.mark.parametrize("waited", [0.0, 1.0, Pulse.EVERY_S])
@pytest.mark.parametrize("heartbeat_s", [4, 10, 60])
def test_a_standstill_of_one_and_a_half_heartbeats_is_noticed_wherever_between_two_ticks_it_falls(
    heartbeat_s: int, waited: float
) -> None:
    machine = Machine()
    pulse = Pulse(standstill_limit(heartbeat_s), machine.read)
    machine.freeze(waited)
    machine.freeze(1.5 * heartbeat_s + 0.1)
    assert pulse.is_in_doubt
    assert pulse.tick() is not None


def test_a_tick_that_is_late_by_less_than_a_heartbeat_is_no_standstill() -> None:
    machine = Machine()
    pulse = Pulse(standstill_limit(2), machine.read)
    machine.freeze(Pulse.EVERY_S + 1.9)
    assert pulse.tick() is None


def test_what_is_in_hand_is_in_doubt_at_once_and_until_the_next_session() -> None:
    machine = Machine()
    pulse = Pulse(15.0, machine.read)
    machine.suspend(60)
    assert pulse.is_in_doubt
    pulse.renew()
    assert pulse.is_in_doubt, "no tick has told of it yet, so this session ends too"
    assert pulse.tick() is not None
    assert pulse.is_in_doubt
    pulse.renew()
    assert not pulse.is_in_doubt


async def test_a_delivery_that_was_in_hand_is_committed_only_in_the_next_session(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    async with two(tmp_path, memory) as (alpha, beta), trio.open_nursery() as nursery:
        machine = Machine()
        beta.performer.pulse = Pulse(15.0, machine.read)
        machine.suspend(3600)
        epochs = beta.now_open.epoch
        msg_id, _ = await alpha.send("worker@beta")
        queue, _ = inbox_queue(beta.name, InboxQueue(beta.gid("worker")))
        await until(lambda: COUNTERS.value("not-taken", queue.name), "the delivery in hand, left alone")
        assert beta.gateway.ledger.get((msg_id, beta.gid("worker"))) is None
        nursery.start_soon(run_pulse, beta.performer.pulse, beta.performer)
        await until(lambda: beta.link == "up" and beta.now_open.epoch > epochs, "the next session")
        await until_stored(lambda: beta.is_state(msg_id, "worker", "injected"), "the message, delivered once more")
        assert len(beta.panes[beta.gid("worker")].texts) == 1
        nursery.cancel_scope.cancel()
