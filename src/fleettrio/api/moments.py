"""Moments in words: how long ago, at what time; and by what a message went in then."""

from __future__ import annotations

import time

from fleettrio.ids import WallMs

__all__ = ("ago", "clock", "dated", "means")


def ago(moment: int, now: WallMs) -> str:
    """How long that is, in one unit."""
    seconds = max(0, now - moment) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def clock(moment: int) -> str:
    """The time of day."""
    return time.strftime("%H:%M:%S", time.localtime(moment / 1000))


def dated(moment: int, now: WallMs) -> str:
    """The time of day, with the date where that is not today's."""
    at, today = time.localtime(moment / 1000), time.localtime(now / 1000)
    return time.strftime("%H:%M:%S" if at[:3] == today[:3] else "%Y-%m-%d %H:%M", at)


def means(via: str) -> str:
    """By what it went in: a transport, a hook."""
    return "a waiting hook" if via == "rewake" else via
