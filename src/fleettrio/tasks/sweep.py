"""The sweeper: sleeps until the core waits for nothing any longer, then lets it judge the time. It never polls."""

from __future__ import annotations

import trio

from fleettrio.core.events import FromCoordinator, LinkHeard
from fleettrio.perform import Performer

__all__ = ("run_sweep",)


async def run_sweep(performer: Performer, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run until cancelled. Cancelled, no deadline is lost: the core holds them."""
    task_status.started()
    while True:
        deadline = performer.gateway.next_deadline()
        performer.sleeping_until = deadline
        with trio.CancelScope(deadline=float("inf") if deadline is None else deadline):
            await performer.deadline_changed()
            continue
        if performer.session is not None:
            await performer.handle(LinkHeard(performer.session.broker.last_heard))
        if performer.coordinator is not None:
            await performer.handle(FromCoordinator(LinkHeard(performer.coordinator.broker.last_heard)))
        await performer.expire()
