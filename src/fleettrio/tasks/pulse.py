"""The pulse: a tick every other second, by which the daemon notices that it was frozen, or asleep with its machine."""

from __future__ import annotations

import trio

from fleettrio.clock import Pulse
from fleettrio.core.events import StoodStill
from fleettrio.observe import get_logger
from fleettrio.perform import Performer

__all__ = ("run_pulse",)

log = get_logger("pulse")


async def run_pulse(
    pulse: Pulse, performer: Performer, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Tick until cancelled; cancellation loses nothing."""
    task_status.started()
    while True:
        await trio.sleep(Pulse.EVERY_S)
        if found := pulse.tick():
            log.warning("stood still", seconds=round(found.seconds, 1), slept=round(found.slept, 1))
            await performer.handle(StoodStill(found.seconds, found.slept))
