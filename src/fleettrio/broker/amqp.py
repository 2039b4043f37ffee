"""The border: the one file that knows asyncio, aio-pika, aiormq and pamqp. Everything it exports is Trio-flavoured.

Rules, each from a way in which the libraries (aio-pika 10.2, aiormq 7.2, pamqp 4.0, trio-asyncio 0.16) hurt:

 1. Returns are matched by AMQP `message_id`: it stays the library's, random per publish, never our msgId.
 2. An unroutable message counts as published unless `on_return_raises` is set.
 3. A cancelled confirm makes a later return kill the channel; a cancelled call closes its channel. So nobody outside
    waits inside a publish or cancels a call: results cross as done-callbacks, calls are shielded and have a deadline.
 4. Each delivery is a task of its own: order lasts as long as the callback does not await. It only hands off.
 5. Tags of an earlier session close the new channel: a tag carries its epoch, and another epoch's is dropped.
 6. pamqp decodes tables, timestamps and keys before we see them, and what it cannot decode ends the connection, again
    at every redelivery. `_install_reader` puts our own reader there; method frames keep pamqp's tables.
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
import errno
import importlib.metadata
import itertools
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar, cast

import aio_pika.connection
import aiormq
import pamqp.decode
import pamqp.header
import trio
import trio_asyncio
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.connection import Connection, TransportFactory
from pamqp.commands import Basic

from fleettrio.broker.links import AmqpChannel, Refused
from fleettrio.broker.login import Address, addresses, tls_context
from fleettrio.broker.port import (
    BrokerSession,
    BrokerSettings,
    LinkBlocked,
    LinkUnblocked,
    RawDelivery,
    RawPublish,
    SessionEvent,
    Verdict,
)
from fleettrio.broker.twolinks import TwoLinks
from fleettrio.errors import ConfigError, LoginRefused, PortRefused, ProtocolMisuse, SessionLost
from fleettrio.ids import Seconds, Tag
from fleettrio.wire.headers import MAX_TABLE, RawHeaders, read_content_header, table_size

__all__ = ("open_border", "open_session")

T = TypeVar("T")

_CALLBACKS_PER_TURN = 256
"""How many ready asyncio callbacks run before Trio's other tasks get their turn."""
_FLUSH_S, _GOODBYE_S, _ABORT_S = 0.3, 1.2, 0.3
"""The three steps of closing, together under two seconds."""
_SHORT_STRING = 255
"""Bytes of a routing key."""
_FAILURES = (aiormq.AMQPError, OSError, RuntimeError, EOFError, asyncio.TimeoutError)
"""What the libraries raise when a connection or AMQP channel is gone."""
_REFUSALS: dict[type[Exception], int] = {
    aiormq.ChannelAccessRefused: 403,
    aiormq.ChannelNotFoundEntity: 404,
    aiormq.ChannelLockedResource: 405,
    aiormq.ChannelPreconditionFailed: 406,
}


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
    last_good: dict[tuple[str, ...], int]
    """For each list of URIs: which one took us last."""


_BORDER: contextvars.ContextVar[_Border] = contextvars.ContextVar("fleettrio border")


@contextlib.asynccontextmanager
async def open_border() -> AsyncIterator[None]:
    """Run the asyncio loop for the body; sessions are opened inside. Raises `ConfigError` for libraries we do not know.

    After cancellation the loop has ended and nothing of it is left.
    """
    _install_reader()
    for name, level in (("aiormq", logging.CRITICAL), ("aio_pika", logging.CRITICAL), ("asyncio", logging.ERROR)):
        # They log URLs, and as errors and warnings what is an ordinary event here.
        logging.getLogger(name).setLevel(level)
    async with trio_asyncio.open_loop() as loop:
        loop.__class__ = _DrainingLoop  # open_loop() takes no loop class; this touches one object and no global
        token = _BORDER.set(_Border(loop, {}))
        try:
            yield
        finally:
            _BORDER.reset(token)


def _install_reader() -> None:
    """Rule 6. Only content headers and short strings are read anew: the frames a publisher's bytes can reach."""
    for package, known in (("pamqp", "4."), ("aiormq", "7."), ("aio-pika", "10."), ("trio-asyncio", "0.16.")):
        version = importlib.metadata.version(package)
        if not version.startswith(known):
            raise ConfigError(
                [f"{package} {version} is installed, this fleettrio needs {known}x"],
                hint="Install fleettrio with the versions of its lock file.",
            )
    if not (
        callable(getattr(pamqp.header.ContentHeader, "unmarshal", None))
        and "shortstr" in pamqp.decode.METHODS
        and hasattr(Connection, _BLOCKED)
        and hasattr(Connection, _UNBLOCKED)
    ):
        raise ConfigError(
            ["pamqp or aiormq has changed inside: messages could not be read safely"],
            hint="Install fleettrio with the versions of its lock file.",
        )
    pamqp.header.ContentHeader.unmarshal = _unmarshal  # type: ignore[method-assign]
    pamqp.decode.METHODS["shortstr"] = _short_str


_BLOCKED, _UNBLOCKED = "_Connection__handle_connection_blocked", "_Connection__handle_connection_unblocked"
"""aiormq tells nobody that a connection is blocked. It looks these up on the instance, where they can be replaced."""


def _unmarshal(self: pamqp.header.ContentHeader, data: bytes) -> None:
    """Takes the place of pamqp's decoder of content headers; `properties.headers` becomes our `RawHeaders`."""
    header = read_content_header(data)
    self.body_size = header.body_size
    self.properties.message_id = header.message_id or None
    self.properties.headers = header.headers  # type: ignore[assignment]


def _short_str(value: bytes) -> tuple[int, str]:
    """pamqp's, but a routing key that is not UTF-8 becomes one that nobody owns instead of the connection's end."""
    end = 1 + value[0]
    return end, value[1:end].decode("utf-8", "backslashreplace")


# One connection ----------------------------------------------------------------------------------------------------


class _Reader(asyncio.StreamReader):
    """Knows when bytes last came."""

    heard = Seconds(0.0)

    def feed_data(self, data: Any) -> None:
        self.heard = Seconds(trio.current_time())
        super().feed_data(data)


class _Transports(TransportFactory):
    """Makes the TCP or TLS transport of one connection, and keeps it, so that it can be cut."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self.reader: _Reader | None = None
        self.transport: asyncio.Transport | None = None

    async def create(self, url: Any, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        self.reader = _Reader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(self.reader, loop=loop)
        # A peer that is stuck cannot take part in the closing handshake of TLS.
        tls: dict[str, Any] = {"ssl": self._context, "ssl_shutdown_timeout": _ABORT_S} if self._context else {}
        self.transport, _ = await loop.create_connection(lambda: protocol, url.host, url.port, **tls)
        return self.reader, asyncio.StreamWriter(self.transport, protocol, self.reader, loop)

    def cut(self) -> None:
        if self.transport is not None:
            self.transport.abort()


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
        self._transports = _Transports(tls_context(settings.ca_file) if address.secure else None)
        self._pika: _Pika | None = None
        self._serials = itertools.count(1)
        self._lost: Callable[[SessionLost], None] | None = None
        self.settling: set[asyncio.Task[None]] = set()
        self.publishing: set[asyncio.Task[None]] = set()

    @property
    def heard(self) -> Seconds:
        return Seconds(0.0) if self._transports.reader is None else self._transports.reader.heard

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
        self._pika.kwargs["transport_factory"] = self._transports
        await self._pika.connect()

    def watch(self, lost: Callable[[SessionLost], None], tell: Callable[[SessionEvent], None]) -> None:
        self._lost = lost

        async def aio_blocked(frame: Any) -> None:
            tell(LinkBlocked(frame.reason or ""))

        async def aio_unblocked(_frame: Any) -> None:
            tell(LinkUnblocked())

        setattr(self._connection, _BLOCKED, aio_blocked)
        setattr(self._connection, _UNBLOCKED, aio_unblocked)
        self._connection.closing.add_done_callback(
            lambda closing: lost(SessionLost(f"the {self._role} connection was closed: {_why(closing)}"))
        )

    async def call(self, what: str, coroutine: Coroutine[Any, Any, T]) -> T:
        """As `AmqpChannel.call`."""
        try:
            return await _cross(self.loop, coroutine, limit_s=self._call_limit_s, shield=True)
        except trio.TooSlowError:
            lost = SessionLost(f"{what}: the broker did not answer within {self._call_limit_s:g} s")
        except tuple(_REFUSALS) as error:
            raise Refused(_REFUSALS[type(error)], _plain(error)) from error
        except (*_FAILURES, asyncio.CancelledError) as error:
            if not self.is_closed and isinstance(error, aiormq.ChannelInvalidStateError):
                raise Refused(504, "its AMQP channel is closed") from error
            lost = SessionLost(f"{what}: {_plain(error)}")
        if self._lost is not None:
            self._lost(lost)
        raise lost

    async def open_channel(
        self,
        *,
        confirms: bool = False,
        closed: Callable[[AmqpChannel, str], None] | None = None,
        cancelled: Callable[[], None] | None = None,
    ) -> AmqpChannel:
        if self.is_closed:
            raise SessionLost(f"the {self._role} connection is closed")
        opening = self._connection.channel(publisher_confirms=confirms, on_return_raises=True)
        opened = cast(Channel, await self.call(f"an AMQP channel of the {self._role} connection", opening))
        channel = _Channel(self, opened, next(self._serials))
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
        task.add_done_callback(_look_at)
        return task

    async def aio_close(self) -> None:
        """Write what was settled, say goodbye, cut the transport of a peer that does not answer. Bounded."""
        if self._pika is None:
            return
        if not self.is_closed:
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
        await asyncio.wait(rest, timeout=_ABORT_S)
        _forget(closing)

    async def _aio_flush(self) -> None:
        if self.settling:
            await asyncio.wait(self.settling)
        await self._connection.write_queue.join()

    def cut(self) -> None:
        self._transports.cut()


class _Channel:
    """See `links.AmqpChannel`."""

    def __init__(self, link: _Link, channel: Channel, serial: int) -> None:
        self._link = link
        self._channel = channel
        self.serial = serial

    @property
    def is_closed(self) -> bool:
        return self._channel.is_closed

    async def call(self, what: str, method: str, **arguments: Any) -> Any:
        return await self._link.call(what, getattr(self._channel, method)(**arguments))

    async def consume(
        self, queue: str, *, prefetch: int, exclusive: bool, deliver: Callable[[RawDelivery], None]
    ) -> str:
        async def aio_deliver(message: DeliveredMessage) -> None:
            deliver(self._delivery(queue, message))

        what = f"consumer of {queue}"
        await self.call(what, "basic_qos", prefetch_count=prefetch)
        started = await self.call(
            what, "basic_consume", queue=queue, consumer_callback=aio_deliver, exclusive=exclusive
        )
        return str(started.consumer_tag)

    def _delivery(self, queue: str, message: DeliveredMessage) -> RawDelivery:
        frame = cast(Basic.Deliver, message.delivery)
        return RawDelivery(
            tag=Tag(self._link.epoch, self.serial, frame.delivery_tag or 0),
            queue=queue,
            exchange=frame.exchange or "",
            routing_key=frame.routing_key or "",
            redelivered=bool(frame.redelivered),
            headers=cast(RawHeaders, message.header.properties.headers),  # rule 6
            body=message.body,
        )

    def ack(self, delivery: int) -> None:
        if not self.is_closed:
            self._link.spawn(self._channel.basic_ack(delivery, wait=False), self._link.settling)

    def reject(self, delivery: int, *, requeue: bool) -> None:
        if not self.is_closed:
            self._link.spawn(self._channel.basic_reject(delivery, requeue=requeue, wait=False), self._link.settling)

    def publish(self, message: RawPublish, decided: Callable[[Verdict, str], None]) -> None:
        size = table_size(message.headers)
        if size > MAX_TABLE or len(message.routing_key.encode()) > _SHORT_STRING:
            # Rule 7. The sender is told in the words for "the broker will not have it", which it would not.
            limits = f"the header table has {size} of {MAX_TABLE} bytes, the key at most {_SHORT_STRING}"
            decided(Verdict.NACKED, f"not sent: {limits}")
            return
        # In order: tasks start in order, and the channel's lock is fair.
        task = self._link.spawn(self._aio_publish(message), self._link.publishing)
        task.add_done_callback(lambda done: decided(*_verdict(done)))

    async def _aio_publish(self, message: RawPublish) -> None:
        table = {key: value if isinstance(value, str) else bytearray(value) for key, value in message.headers.items()}
        await self._channel.basic_publish(
            message.body,
            exchange=message.exchange,
            routing_key=message.routing_key,
            properties=Basic.Properties(
                content_type=message.content_type or None,
                headers=cast(Any, table),
                delivery_mode=2 if message.persistent else 1,
                expiration=str(message.expiration_ms) if message.expiration_ms > 0 else None,
            ),
            mandatory=message.mandatory,
            wait=False,
        )


def _verdict(task: asyncio.Task[None]) -> tuple[Verdict, str]:
    """What came of a publish: basic_publish() ends with the broker's confirm, or with why there is none."""
    error = None if task.cancelled() else task.exception()
    if isinstance(error, aiormq.PublishError):
        return Verdict.UNROUTABLE, "no queue is bound to this routing key"
    if isinstance(error, aiormq.DeliveryError):
        return Verdict.NACKED, "the broker refused it: a queue is full"
    if task.cancelled() or error is not None:
        return Verdict.UNKNOWN, f"no confirm: {_plain(error)}"
    return Verdict.CONFIRMED, ""


# Crossing ----------------------------------------------------------------------------------------------------------


def _look_at(task: asyncio.Future[Any]) -> None:
    """Take notice of how `task` ended; otherwise asyncio reports an error that nobody asked for."""
    if not task.cancelled():
        task.exception()


def _forget(task: asyncio.Future[Any]) -> None:
    """Nobody waits for `task` any more."""
    task.add_done_callback(_look_at)
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
    return _plain(None if closing.cancelled() else closing.exception())


def _plain(error: BaseException | None) -> str:
    """What a library's error says, without what it must not show: several of them print the URL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, aiormq.AMQPError):
        return next((str(arg) for arg in reversed(error.args) if isinstance(arg, str) and arg), type(error).__name__)
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if error is None or isinstance(error, asyncio.CancelledError):
        return "the broker stopped answering"
    return type(error).__name__


# The session -------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def open_session(settings: BrokerSettings, epoch: int) -> AsyncIterator[BrokerSession]:
    """Connect to the first broker of `settings.uris` that takes us, beginning with the last good one.

    Raises `ConfigError` for settings that cannot be used; when none takes us `LoginRefused` or `PortRefused` if that is
    true of each, else `SessionLost`. Leaving, also by cancellation, closes both connections within two seconds; each
    open publish has its verdict then.
    """
    border = _BORDER.get(None)
    if border is None:
        raise ProtocolMisuse("open_session() works inside open_border() only")
    links = await _connect_any(border, settings, epoch)
    session = TwoLinks(*links, epoch)
    try:
        await session.start()
        yield session
    finally:
        session.end()
        await _close(links)
        session.give_up()


async def _connect_any(border: _Border, settings: BrokerSettings, epoch: int) -> tuple[_Link, _Link]:
    """The two connections to the first broker that takes us."""
    choices = addresses(settings)
    first = border.last_good.get(settings.uris, 0)
    refusals: list[SessionLost] = []
    for place in (*range(first, len(choices)), *range(first)):
        try:
            links = await _connect_both(border.loop, choices[place], settings, epoch)
        except SessionLost as refusal:
            refusals.append(refusal)
            continue
        border.last_good[settings.uris] = place
        return links
    kinds = {type(refusal) for refusal in refusals}
    kind = kinds.pop() if len(kinds) == 1 else SessionLost
    raise kind("; ".join(map(str, refusals)), hint=refusals[0].hint) from refusals[0]


async def _connect_both(
    loop: asyncio.AbstractEventLoop, address: Address, settings: BrokerSettings, epoch: int
) -> tuple[_Link, _Link]:
    """Both or none: after an error or cancellation nothing is left open."""
    links = _Link(loop, "publishing", address, settings, epoch), _Link(loop, "consuming", address, settings, epoch)
    deadline = trio.current_time() + settings.connect_limit_s
    try:
        for link in links:
            with _in_words(address, settings):
                await _cross(loop, link.aio_connect(), limit_s=max(0.0, deadline - trio.current_time()), shield=False)
    except BaseException:
        await _close(links)
        raise
    return links


@contextlib.contextmanager
def _in_words(address: Address, settings: BrokerSettings) -> Iterator[None]:
    """Why there is no connection: `LoginRefused` or `SessionLost`, naming the broker and never its URL."""
    try:
        yield
    except trio.TooSlowError:
        raise SessionLost(f"{address}: no answer within {settings.connect_limit_s:g} s") from None
    except aiormq.ProbableAuthenticationError as error:
        raise LoginRefused(
            f"{address}: the login of user {address.user} is refused",
            hint="Check broker.user and broker.password_file against the broker's users.",
        ) from error
    except aiormq.InvalidFrameError as error:
        # The broker closes instead of opening; aiormq takes that for a broken frame and drops what it says.
        raise LoginRefused(
            f"{address}: user {address.user} is not let into the virtual host {address.vhost}",
            hint="Check that the virtual host exists and that this user has permissions in it.",
        ) from error
    except (*_FAILURES, asyncio.CancelledError) as error:
        if _is_refused(error):
            raise PortRefused(f"{address}: connection refused, no broker listens there") from error
        raise SessionLost(f"{address}: {_plain(error)}") from error


def _is_refused(error: BaseException) -> bool:
    """Of a name with several addresses asyncio tells what came of each in one text, without a number."""
    number = errno.ECONNREFUSED
    return isinstance(error, OSError) and (error.errno == number or f"[Errno {number}]" in str(error))


async def _close(links: Sequence[_Link]) -> None:
    async def aio_close_all() -> None:
        await asyncio.gather(*(link.aio_close() for link in links))

    with contextlib.suppress(trio.TooSlowError):
        await _cross(links[0].loop, aio_close_all(), limit_s=_FLUSH_S + _GOODBYE_S + 2 * _ABORT_S, shield=True)
