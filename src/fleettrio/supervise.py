"""The restart policy of broker sessions: again and again, with back-off and jitter, until the daemon goes.

0.2 s … 5 s between tries; at most 1 s while the port refuses, so that a broker that comes back is found at once. While
the store takes no writes, no session is opened: what cannot be recorded must not be consumed. Nor is one while another
machine uses this host's key.
"""

from __future__ import annotations

import random

import trio

from fleettrio.broker.port import ConsumerLocked, QueueMismatch
from fleettrio.core.events import SessionClosed
from fleettrio.errors import ConfigError, PortRefused, SessionLost, first_of
from fleettrio.observe import get_logger
from fleettrio.session import Session, run_session

__all__ = ("run_supervisor",)

FIRST_S, MOST_S, REFUSED_MOST_S = 0.2, 5.0, 1.0
STEADY_S = 10.0
"""A session that lived so long starts the back-off anew."""

log = get_logger("supervisor")


async def run_supervisor(session: Session, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Keep a session open until `session.stopping`. Cancelled, the session is closed, bounded. Bugs leave."""
    task_status.started()
    wait_s, epoch = FIRST_S, 0
    while not session.stopping.is_set():
        if session.realm.gateway.why_no_session:
            await _pause(MOST_S / 5, session.stopping)
            continue
        epoch += 1
        began = trio.current_time()
        lost: BaseException | None = None
        try:
            await run_session(session, epoch)
        except* (SessionLost, ConsumerLocked, QueueMismatch, ConfigError) as group:
            # Locked: another gateway uses this host's control queue, or a dead one's lock lasts a little longer.
            # ConfigError: login and CA file are read at each connect, so that they can rotate.
            lost = first_of(group)
        if lost is None:
            continue
        log.warning("session lost", epoch=epoch, coordinator=session.is_coordinator, reason=str(lost))
        await session.realm.handle(SessionClosed(epoch, str(lost)))
        if trio.current_time() - began > STEADY_S:
            wait_s = FIRST_S
        most_s = REFUSED_MOST_S if isinstance(lost, PortRefused) else MOST_S
        wait_s = min(wait_s, most_s)
        await _pause(wait_s * random.uniform(0.8, 1.2), session.stopping)  # noqa: S311 - not for secrets
        wait_s *= 2


async def _pause(seconds: float, stopping: trio.Event) -> None:
    with trio.move_on_after(seconds):
        await stopping.wait()
