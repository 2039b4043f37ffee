"""Waiting for what another process does: for a condition, with a bound that only catches what hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from fleettrio.errors import FleetTrioError

__all__ = ("BOUND_S", "HostTrouble", "wait_until")

BOUND_S = 90.0
"""A machine that is busy with other things takes its time."""
_LOOK_AGAIN_S = 0.02

T = TypeVar("T")


class HostTrouble(FleetTrioError, AssertionError):
    """What was asked of a host, or waited for, did not happen."""


def wait_until(what: str, find: Callable[[], T | None], limit_s: float = BOUND_S) -> T:
    """The first true value of `find`. Raises `HostTrouble`, which names `what`, after `limit_s` seconds."""
    deadline = time.monotonic() + limit_s
    while not (found := find()):
        if time.monotonic() > deadline:
            raise HostTrouble(f"not within {limit_s:g} s: {what}")
        time.sleep(_LOOK_AGAIN_S)
    return found
