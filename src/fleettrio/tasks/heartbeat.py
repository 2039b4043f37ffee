"""The heartbeat: says every few seconds that this host is alive, irregularly so that hosts do not beat as one."""

from __future__ import annotations

import random

import trio

from fleettrio.core.events import BeatDue
from fleettrio.perform import Performer

__all__ = ("run_heartbeat",)

JITTER = 0.1


async def run_heartbeat(
    performer: Performer, beat_s: float, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Beat until cancelled; a beat under way is finished."""
    task_status.started()
    while True:
        await trio.sleep(beat_s * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311 - not for secrets
        await performer.handle(BeatDue())
