"""How the demo and the benchmark are stopped: what they started ends with them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import NoReturn, TypeVar

import trio

__all__ = ("run_until_stopped", "stopped_by_signals")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

T = TypeVar("T")


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM stops it like Ctrl-C does. Once it is being stopped, a second signal does not stop the cleaning up."""

    def stop(_number: int, _frame: object) -> None:
        _stop()

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_until_stopped(main: Callable[[], Awaitable[T]]) -> T:
    """`trio.run` inside `stopped_by_signals`: a signal cancels `main`; when all of it has ended, KeyboardInterrupt.

    Raised in the middle of Trio's own work it would leave tasks and threads behind. What `main` raises comes as it is,
    not in the groups of the nurseries that it passed.
    """

    async def run() -> T:
        with trio.open_signal_receiver(*_SIGNALS) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel, signals, nursery.cancel_scope)
                result = await main()
                nursery.cancel_scope.cancel()
                return result
        _stop()

    try:
        return trio.run(run)
    except BaseExceptionGroup as group:
        fault: BaseException = group
        while isinstance(fault, BaseExceptionGroup) and len(fault.exceptions) == 1:
            fault = fault.exceptions[0]
        raise fault from None


async def _cancel(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()


def _stop() -> NoReturn:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
