"""The border: with `libraries.py`, `stocklane.py` and `streams.py` all that knows asyncio and the AMQP libraries.

Everything that it exports is Trio-flavoured.

Rules, each from a way in which the libraries (aio-pika 10.2, aiormq 7.2, pamqp 4.0, trio-asyncio 0.16) hurt:

 1. Returns are matched by AMQP `message_id`: it stays the library's, random per publish, never our msgId.
 2. An unroutable message counts as published unless `on_return_raises` is set.
 3. A cancelled confirm makes a later return kill the channel; a cancelled call closes its channel. So nobody outside
    waits inside a publish or cancels a call: results cross as done-callbacks, calls are shielded and have a deadline.
 4. Each delivery is a task of its own: order lasts as long as the callback does not await. It only hands off.
 5. Tags of an earlier session close the new channel: a tag carries its epoch, and another epoch's is dropped.
 6. pamqp decodes tables, timestamps and keys before we see them, and what it cannot decode ends the connection, again
    at every redelivery. `install_reader` puts our own reader there; method frames keep pamqp's tables.
 7. A header frame cannot be split, and pamqp takes no `bytes` in tables: both are settled before a frame is built.
 8. Plain `connect`, never `connect_robust`: that one restores all or nothing and hides loss. TLS is `login.py`'s.
 9. A stuck broker surfaces as a bare `asyncio.CancelledError`: it never leaves this file, it becomes `SessionLost`.
10. trio-asyncio runs one callback per Trio checkpoint, four times slower than asyncio: `_DrainingLoop`.

Functions of asyncio flavour begin with `aio_`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import functools
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

import aio_pika.connection
import aiormq
import trio
import trio_asyncio
from aiormq.channel import Channel
from aiormq.connection import Connection

from fleettrio.broker.fastchannel import FastChannel
from fleettrio.broker.fastlane import Lane
from fleettrio.broker.libraries import (
    BLOCKED,
    FAILURES,
    REFUSALS,
    UNBLOCKED,
    doubt_of,
    in_words,
    install_reader,
    plain,
    why_stock,
)
from fleettrio.broker.links import AmqpChannel, Decided, Refused
from fleettrio.broker.login import Address, tls_context
from fleettrio.broker.port import BrokerSession, BrokerSettings, LinkBlocked, LinkUnblocked, SessionEvent
from fleettrio.broker.rotation import Rotation
from fleettrio.broker.setup import Setup
from fleettrio.broker.stocklane import StockChannel, look_at
from fleettrio.broker.streams import ABORT_S, Streams
from fleettrio.broker.twolinks import TwoLinks
from fleettrio.errors import ProtocolMisuse, SessionLost
from fleettrio.ids import Seconds

__all__ = ("open_border", "open_session", "open_setup")

T = TypeVar("T")

_CALLBACKS_PER_TURN = 256
"""How many ready asyncio callbacks run before Trio's other tasks get their turn."""
_FLUSH_S, _GOODBYE_S = 0.3, 1.2
"""The first two steps of closing; with `ABORT_S`, the third, together under two seconds."""

# The asyncio loop of the daemon ------------------------------------------------------------------------------------


class _DrainingLoop(trio_asyncio.TrioEventLoop):  # type: ignore[misc]
    """A trio-asyncio loop that runs what is ready in one turn instead of one callback per checkpoint."""

    async def _main_loop_one(self, no_wait: bool = False) -> None:
        await super()._main_loop_one(no_wait)
        with contextlib.suppress(trio.WouldBlock):
            for _ in range(_CALLBACKS_PER_TURN):
                await super()._main_loop_one(no_wait=True)


@dataclasses.dataclass(frozen=True, slots=True)
class _Border:
    loop: asyncio.AbstractEventLoop
    brokers: Rotation


_BORDER: contextvars.ContextVar[_Border] = contextvars.ContextVar("fleettrio border")


@contextlib.asynccontextmanager
async def open_border() -> AsyncIterator[None]:
    """Run the asyncio loop for the body; sessions are opened inside. Raises `ConfigError` for libraries we do not know.

    After cancellation the loop has ended and nothing of it is left.
    """
    install_reader()
    for name, level in (("aiormq", logging.CRITICAL), ("aio_pika", logging.CRITICAL), ("asyncio", logging.ERROR)):
        # They log URLs, and as errors and warnings what is an ordinary event here.
        logging.getLogger(name).setLevel(level)
    async with trio_asyncio.open_loop() as loop:
        loop.__class__ = _DrainingLoop  # open_loop() takes no loop class; this touches one object and no global
        token = _BORDER.set(_Border(loop, Rotation()))
        try:
            yield
        finally:
            _BORDER.reset(token)


# One connection ----------------------------------------------------------------------------------------------------


class _Pika(aio_pika.Connection):
    def __del__(self) -> None:
        """Nothing: the original starts a task on whatever loop is current, when the last one may be gone."""


class _Link:
    """See `links.Link`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, role: str, address: Address, settings: BrokerSettings, epoch: int
    ) -> None:
        self.loop = loop
        self._role = role
        self._address = address
        self._heartbeat_s = settings.heartbeat_s
        self._call_limit_s = settings.call_limit_s
        self.epoch = epoch
        self._why_stock = why_stock() if settings.fast_lane else "the configuration says fast_lane = false"
        self._lane = None if self._why_stock else Lane(self._write, self._flush_soon, self._broken)
        self._streams = Streams(tls_context(settings.ca_file) if address.secure else None, self._lane)
        self._pika: _Pika | None = None
        self._serials = itertools.count(1)
        self._lost: Callable[[SessionLost], None] | None = None
        self.settling: set[asyncio.Task[None]] = set()
        self.publishing: set[asyncio.Task[None]] = set()

    @property
    def heard(self) -> Seconds:
        return Seconds(0.0) if self._streams.reader is None else self._streams.reader.heard

    @property
    def lane(self) -> tuple[str, str]:
        return ("stock" if self._why_stock else "fast"), self._why_stock

    @property
    def is_closed(self) -> bool:
        return self._pika is None or self._pika.transport is None or self._pika.transport.connection.is_closed

    @property
    def _connection(self) -> Connection:
        assert self._pika is not None
        assert self._pika.transport is not None
        return cast(Connection, self._pika.transport.connection)

    async def aio_connect(self) -> None:
        address = self._address
        url = aio_pika.connection.make_url(
            host=address.host,
            port=address.port,
            login=address.user,
            password=address.password,
            virtualhost=address.vhost,
            ssl=address.secure,
            heartbeat=self._heartbeat_s,
        )
        properties = {"product": "fleettrio", "connection_name": f"fleettrio {self._role}"}
        self._pika = _Pika(url, loop=self.loop, client_properties=cast(Any, properties))
        self._pika.kwargs["transport_factory"] = self._streams
        await self._pika.connect()
        if self._lane is not None and self._streams.writer is not None:
            self._why_stock = doubt_of(self._connection, self._streams.writer.writes_whole_frames)
            if not self._why_stock:
                self._lane.begin(self._connection.connection_tune.frame_max)

    def _write(self, data: bytes) -> None:
        self._streams.write(data)

    def _flush_soon(self) -> None:
        if self._lane is not None:
            self.loop.call_soon(self._lane.flush)

    def _broken(self, why: str) -> None:
        if self._lost is not None:
            self._lost(SessionLost(f"the {self._role} connection makes no sense any more: {why}"))
        self.cut()

    def watch(self, lost: Callable[[SessionLost], None], tell: Callable[[SessionEvent], None]) -> None:
        self._lost = lost

        async def aio_blocked(frame: Any) -> None:
            if self._lane is not None:
                self._lane.hold("alarm")
            tell(LinkBlocked(frame.reason or ""))

        async def aio_unblocked(_frame: Any) -> None:
            if self._lane is not None:
                self._lane.release("alarm")
            tell(LinkUnblocked())

        setattr(self._connection, BLOCKED, aio_blocked)
        setattr(self._connection, UNBLOCKED, aio_unblocked)
        self._connection.closing.add_done_callback(
            lambda closing: lost(SessionLost(f"the {self._role} connection was closed: {_why(closing)}"))
        )

    async def call(self, what: str, coroutine: Coroutine[Any, Any, T]) -> T:
        """As `AmqpChannel.call`."""
        try:
            return await _cross(self.loop, coroutine, limit_s=self._call_limit_s, shield=True)
        except trio.TooSlowError:
            lost = SessionLost(f"{what}: the broker did not answer within {self._call_limit_s:g} s")
        except tuple(REFUSALS) as error:
            raise Refused(REFUSALS[type(error)], plain(error)) from error
        except (*FAILURES, asyncio.CancelledError) as error:
            if not self.is_closed and isinstance(error, aiormq.ChannelInvalidStateError):
                raise Refused(504, "its AMQP channel is closed") from error
            lost = SessionLost(f"{what}: {plain(error)}")
        if self._lost is not None:
            self._lost(lost)
        raise lost

    async def open_channel(
        self,
        *,
        decided: Decided | None = None,
        closed: Callable[[AmqpChannel, str], None] | None = None,
        cancelled: Callable[[], None] | None = None,
    ) -> AmqpChannel:
        if self.is_closed:
            raise SessionLost(f"the {self._role} connection is closed")
        opening = self._connection.channel(publisher_confirms=decided is not None, on_return_raises=True)
        opened = cast(Channel, await self.call(f"an AMQP channel of the {self._role} connection", opening))
        channel: AmqpChannel = StockChannel(self, opened, next(self._serials), decided)
        if self._lane is not None and not self._why_stock:
            channel = fast = FastChannel(self._lane, channel, opened.number, self.epoch, decided)
            opened.closing.add_done_callback(lambda closing: fast.closed(_why(closing)))
        if closed is not None:
            opened.closing.add_done_callback(lambda closing: closed(channel, _why(closing)))
        if cancelled is not None:
            opened.on_consumer_cancel_callbacks.add(lambda _frame: cancelled())
        return channel

    def spawn(self, coroutine: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> asyncio.Task[None]:
        """Start a hand-over and keep it in `tasks` until it has ended."""
        task = self.loop.create_task(coroutine)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(look_at)
        return task

    async def aio_close(self) -> None:
        """Write what was settled, say goodbye, cut the transport of a peer that does not answer. Bounded."""
        if self._pika is None:
            return
        if not self.is_closed:
            if self._lane is not None:
                self._lane.flush()
            # Closing drops what still waits for the writer, and a dropped ack is a redelivery.
            flushing = asyncio.ensure_future(self._aio_flush())
            await asyncio.wait([flushing], timeout=_FLUSH_S)
            _forget(flushing)
        closing = asyncio.ensure_future(self._pika.close())
        await asyncio.wait([closing], timeout=_GOODBYE_S)
        self.cut()
        rest = [closing, *self.settling, *self.publishing]
        for task in rest[1:]:
            task.cancel()
        await asyncio.wait(rest, timeout=ABORT_S)
        _forget(closing)

    async def _aio_flush(self) -> None:
        if self.settling:
            await asyncio.wait(self.settling)
        await self._connection.write_queue.join()

    def cut(self) -> None:
        self._streams.cut()


# Crossing ----------------------------------------------------------------------------------------------------------


def _forget(task: asyncio.Future[Any]) -> None:
    """Nobody waits for `task` any more."""
    task.add_done_callback(look_at)
    task.cancel()


async def _cross(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T], *, limit_s: float, shield: bool
) -> T:
    """Run `coroutine` on the loop and wait for it. Raises `trio.TooSlowError`, or what it raised.

    After cancellation (where not shielded) it is cancelled too, and its end is not waited for.
    """
    task = loop.create_task(coroutine)
    done = trio.Event()
    task.add_done_callback(lambda _: done.set())
    try:
        with trio.fail_after(limit_s, shield=shield):
            await done.wait()
    finally:
        if not task.done():
            _forget(task)
    return task.result()


def _why(closing: asyncio.Future[Any]) -> str:
    return plain(None if closing.cancelled() else closing.exception())


# The session -------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def open_session(settings: BrokerSettings, epoch: int) -> AsyncIterator[BrokerSession]:
    """Connect to the first broker of `settings.uris` that takes us, beginning with the last good one.

    Raises `ConfigError` for settings that cannot be used; when none takes us `LoginRefused` or `PortRefused` if that is
    true of each, else `SessionLost`. Leaving, also by cancellation, closes both connections within two seconds; each
    open publish has its verdict then.
    """
    links = await _connect(settings, epoch)
    session = TwoLinks(*links, epoch)
    try:
        await session.start()
        yield session
    finally:
        session.end()
        await _close(links)
        session.give_up()


@contextlib.asynccontextmanager
async def open_setup(settings: BrokerSettings) -> AsyncIterator[Setup]:
    """Connect as `open_session` does, only to look at what is on the broker and to make what is missing.

    Raises and leaves as `open_session` does; works inside `open_border()`.
    """
    links = await _connect(settings, 0)
    try:
        yield Setup(links[0])
    finally:
        await _close(links)


async def _connect(settings: BrokerSettings, epoch: int) -> tuple[_Link, _Link]:
    """The two connections to the first broker that takes us."""
    border = _BORDER.get(None)
    if border is None:
        raise ProtocolMisuse("a session with a broker works inside open_border() only")
    return await border.brokers.first(settings, functools.partial(_connect_both, border.loop, settings, epoch))


async def _connect_both(
    loop: asyncio.AbstractEventLoop, settings: BrokerSettings, epoch: int, address: Address
) -> tuple[_Link, _Link]:
    """Both or none: after an error or cancellation nothing is left open."""
    links = _Link(loop, "publishing", address, settings, epoch), _Link(loop, "consuming", address, settings, epoch)
    deadline = trio.current_time() + settings.connect_limit_s
    try:
        for link in links:
            with in_words(address, settings):
                await _cross(loop, link.aio_connect(), limit_s=max(0.0, deadline - trio.current_time()), shield=False)
    except BaseException:
        await _close(links)
        raise
    return links


async def _close(links: Sequence[_Link]) -> None:
    async def aio_close_all() -> None:
        await asyncio.gather(*(link.aio_close() for link in links))

    with contextlib.suppress(trio.TooSlowError):
        await _cross(links[0].loop, aio_close_all(), limit_s=_FLUSH_S + _GOODBYE_S + 2 * ABORT_S, shield=True)
