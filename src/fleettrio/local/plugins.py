"""Transports that others wrote: found by the entry-point group `fleettrio.transports`, loaded when one is asked for.

An entry point names a callable `(target: str, harness: Harness, env: Mapping[str, str]) -> Transport`. `target` is what
`attach --target` gave, `harness` what is known of the program, `env` the daemon's environment. It raises `ConfigError`
for a target it cannot use.

Whatever breaks in such code costs the one agent that is reached by it:

1. What cannot be loaded, or opened, is a `ConfigError` that names the transport and what went wrong.
2. A look that raises, or takes longer than `LOOK_LIMIT_S`, is "not ready", with the reason.
3. A write that raises is `unconfirmed`: bytes may have gone in. It is logged with its traceback.
"""

from __future__ import annotations

import functools
import importlib.metadata
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import trio

from fleettrio.errors import ConfigError, FleetTrioError
from fleettrio.local.harness import Harness
from fleettrio.local.port import AgentState, Delivery, NotReady, Reserved, Text, Transport
from fleettrio.local.sanitise import one_line
from fleettrio.observe import get_logger

__all__ = ("GROUP", "Contained", "open_plugin", "plugin_names")

GROUP = "fleettrio.transports"
LOOK_LIMIT_S = 15.0
CLOSE_LIMIT_S = 2.0
_MOST_WORDS, _MOST_TRACE = 200, 4000

log = get_logger("plugins")

T = TypeVar("T")


class PluginError(FleetTrioError):
    """Something in another's transport broke; the message is one line, fit to be shown."""


def plugin_names() -> tuple[str, ...]:
    """The transports that are installed beside fleettrio."""
    return tuple(sorted({point.name for point in importlib.metadata.entry_points(group=GROUP)}))


def open_plugin(name: str, target: str, harness: Harness, env: Mapping[str, str]) -> Transport:
    """The way into `target` by the transport `name`, contained. Raises `ConfigError`."""
    points = importlib.metadata.entry_points(group=GROUP, name=name)
    if not points:
        raise ConfigError([f"no transport {name!r} is installed"], hint=_known())
    (point, *_) = points
    try:
        return Contained(name, _guarded(name, lambda: point.load()(target, harness, env)))
    except PluginError as error:
        raise ConfigError([str(error)], hint=f"it comes from {point.value}; mend or reinstall that package") from error


def _known() -> str:
    names = plugin_names()
    return f"installed ones: {', '.join(names)}" if names else f"install a package that has it in the group {GROUP}"


class Contained:
    """Another's transport behind a wall: it answers as a transport must, whatever is behind it."""

    def __init__(self, name: str, via: Any) -> None:
        self.name = name
        self._via = via

    @property
    def wakes(self) -> bool:
        try:
            return _guarded(self.name, lambda: bool(self._via.wakes))
        except PluginError:
            return False

    async def state(self) -> AgentState:
        """What it sees; `unknown` while it is broken."""
        try:
            return AgentState(await self._ask(self._via.state, LOOK_LIMIT_S))
        except (PluginError, ValueError):
            return AgentState.UNKNOWN

    async def reserve(self, when: str) -> Reserved | NotReady:
        try:
            answer = await self._ask(lambda: self._via.reserve(when), LOOK_LIMIT_S)
        except PluginError as error:
            return NotReady(AgentState.UNKNOWN, str(error))
        if isinstance(answer, Reserved | NotReady):
            return answer
        return NotReady(AgentState.UNKNOWN, f"the transport {self.name} answered a look with {_short(answer)}")

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """As it says. Its bound is the caller's; cancelled, bytes may have gone in."""
        try:
            done = await self._ask(lambda: self._via.deliver(reserved, text), float("inf"))
        except PluginError as error:
            return Delivery.unconfirmed(str(error))
        if isinstance(done, Delivery):
            return done
        return Delivery.unconfirmed(f"the transport {self.name} told of a write with {_short(done)}")

    async def close(self) -> None:
        try:
            await self._ask(self._via.close, CLOSE_LIMIT_S)
        except PluginError:
            return  # logged; nothing here can let go of what it holds

    async def _ask(self, call: Callable[[], Awaitable[T]], limit_s: float) -> T:
        with trio.move_on_after(limit_s):
            return await _guarded_await(self.name, call)
        raise PluginError(f"the transport {self.name} did not answer within {limit_s:g} s")


def _guarded(name: str, call: Callable[[], T]) -> T:
    """Raises `PluginError` for whatever another's code raises, `ConfigError` as it is."""
    try:
        return call()
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # a module may end the process as it is imported
        raise _broken(name, error) from error


async def _guarded_await(name: str, call: Callable[[], Awaitable[T]]) -> T:
    try:
        return await call()
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> PluginError:
    trace = "".join(traceback.format_exception(error))[-_MOST_TRACE:]
    _log_once(name, type(error).__name__, trace)
    return PluginError(f"the transport {name} failed: {type(error).__name__}: {_short(error)}")


@functools.lru_cache(maxsize=64)
def _log_once(name: str, kind: str, trace: str) -> None:
    """A look is tried every second or two: the log has its failure once, with where it came from."""
    log.error("transport of another package failed", transport=name, error=kind, trace=trace)


def _short(thing: object) -> str:
    return one_line(str(thing), _MOST_WORDS)
