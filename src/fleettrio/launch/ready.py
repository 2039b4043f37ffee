"""Readiness: how an agent that was just started shows that it can take a message.

| gate | ready when |
|---|---|
| `hook` | its state is seen: a report of its own, or what its screen says |
| `quiet` | its screen did not change for a while, and there is something on it |
| `pattern` | a text is on its screen |
| `port` | it listens on a port of this machine |

A program that ended is never ready, whatever its screen says.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import trio

from fleettrio.launch.errors import LaunchError
from fleettrio.panes.terminal import Screen
from fleettrio.profiles import Profile

__all__ = ("listens", "until_ready")

POLL_S = 0.1


async def until_ready(
    profile: Profile, look: Callable[[], Awaitable[Screen | None]], has_state: Callable[[], Awaitable[bool]]
) -> None:
    """Return once the agent is ready by its profile's gate. `look` gives its screen, None once its pane is gone.

    Raises `LaunchError` when it ended, and when it is not ready within the profile's limit.
    Cancelled, nothing was changed.
    """
    gate = _Gate(profile, has_state)
    with trio.move_on_after(profile.limit_s):
        while True:
            screen = await look()
            if screen is None or screen.facts.dead:
                raise LaunchError("died", "it ended before it was ready")
            if await gate.is_open(screen):
                return
            await trio.sleep(POLL_S)
    raise LaunchError("limit", f"not ready within {profile.limit_s:g} s: {gate.missing}")


class _Gate:
    def __init__(self, profile: Profile, has_state: Callable[[], Awaitable[bool]]) -> None:
        self._profile = profile
        self._has_state = has_state
        self._pattern = re.compile(profile.pattern, re.MULTILINE)
        self._lines: tuple[str, ...] = ()
        self._since = trio.current_time()

    @property
    def missing(self) -> str:
        match self._profile.ready:
            case "quiet":
                return f"its screen did not rest for {self._profile.quiet_s:g} s"
            case "pattern":
                return f"{self._profile.pattern!r} was not on its screen"
            case "port":
                return f"nothing listened on port {self._profile.port}"
        return "its state was not seen"

    async def is_open(self, screen: Screen) -> bool:
        match self._profile.ready:
            case "quiet":
                return self._rests(screen)
            case "pattern":
                return self._pattern.search("\n".join(screen.lines)) is not None
            case "port":
                return await listens(self._profile.port)
        return await self._has_state()

    def _rests(self, screen: Screen) -> bool:
        now = trio.current_time()
        if screen.lines != self._lines or not any(line.strip() for line in screen.lines):
            self._lines, self._since = screen.lines, now
        return now - self._since >= self._profile.quiet_s


async def listens(port: int) -> bool:
    """Whether something on this machine takes connections on `port`."""
    for host in ("127.0.0.1", "::1"):
        try:
            with trio.fail_after(1):
                await (await trio.open_tcp_stream(host, port)).aclose()
        except (OSError, trio.TooSlowError):
            continue
        return True
    return False
