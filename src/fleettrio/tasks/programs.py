"""A harness that a person started at a shell's prompt: when its process ends, its agent is away, at once.

Its pane lives on, and belongs to the person again. Nobody looks there for the agent until it is started once more.
"""

from __future__ import annotations

import os
import sys

import trio

from fleettrio.core.entity import Entity
from fleettrio.core.events import Detached
from fleettrio.observe import get_logger
from fleettrio.panes.scope import Process
from fleettrio.perform import Performer

__all__ = ("run_program", "until_ended")

POLL_S = 1.0
"""Where the system cannot wait for a process that is not ours."""

log = get_logger("programs")


async def run_program(
    entity: Entity, performer: Performer, *, task_status: trio.TaskStatus[bool] = trio.TASK_STATUS_IGNORED
) -> None:
    """Wait for the end of `entity`'s own process, and tell it. `started()` says whether it lives.

    Cancelled, nothing was changed.
    """
    program = Process(entity.program, entity.started)
    is_alive = program.is_alive
    if is_alive:
        task_status.started(True)
        await until_ended(program)
    now = performer.gateway.roster.entities.get(entity.gid)
    if now is not None and (now.program, now.started) == (program.pid, program.started):
        log.info("its program has ended", agent=entity.name, pid=program.pid)
        call = performer.calls.new()
        await performer.handle(Detached(call, entity.gid, forget=False))
        await performer.calls.result(call)
    if not is_alive:
        task_status.started(False)


async def until_ended(process: Process) -> None:
    """Return once `process` has ended; at once when it has already. Cancelled, nothing was changed."""
    if sys.platform == "linux":
        try:
            handle = os.pidfd_open(process.pid)
        except OSError:  # it has ended, or the kernel is too old to say when it does
            handle = -1
        if handle >= 0:
            try:
                if process.is_alive:  # the very one: the handle may be of another one that got its pid
                    await trio.lowlevel.wait_readable(handle)
            finally:
                os.close(handle)
            return
    while process.is_alive:  # noqa: ASYNC110 - a process that is no child tells nobody
        await trio.sleep(POLL_S)
