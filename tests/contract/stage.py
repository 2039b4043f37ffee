"""What a scenario plays on: sessions through the port, raw publishers, the broker's moods, and the transcript.

A scenario is one small program. It tells the transcript what it saw; the transcript of RabbitMQ is kept, and each lane
must give the same. So a scenario tells nothing that may differ from run to run: no times, no order between connections.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Protocol, TypeAlias

import trio

from fleettrio._pure.tables import take_counted, take_value
from fleettrio.broker.model.message import Value
from fleettrio.broker.port import (
    BrokerSession,
    ConsumerCancelled,
    ConsumerLocked,
    LinkBlocked,
    PublishVerdict,
    QueueMismatch,
    RawDelivery,
    RawPublish,
)
from fleettrio.core.topology import Binding, Exchange, Queue
from fleettrio.errors import SessionLost
from fleettrio.wire.deaths import read_deaths
from tests.singly import Singly, consume_singly

LIMIT_S = 60.0
_LOOK_AGAIN_S, QUIET_S = 0.01, 0.05
_PREFETCH = 50
_REASONS = r"its queue is gone|[A-Z]{2,}_[A-Z]+|unknown delivery tag|timed out"

Line: TypeAlias = "list[str | int | bool | list[str]]"
Scenario: TypeAlias = "Callable[[Stage], Awaitable[None]]"


class Raw(Protocol):
    """A publisher of whatever it is told, on a connection of its own."""

    async def publish(
        self,
        exchange: str,
        key: str,
        body: bytes = b"raw",
        *,
        headers: Mapping[str, Value] | None = None,
        expiration: str = "",
        mandatory: bool = False,
    ) -> list[str]:
        """What the broker says to it, in its order."""


class Backstage(Protocol):
    """What differs from lane to lane."""

    def open_session(
        self, epoch: int, *, lossy: bool, login: str
    ) -> contextlib.AbstractAsyncContextManager[BrokerSession]:
        """`login` names the host whose own login it is, over TLS; without one it may do everything."""

    async def cut(self, session: BrokerSession) -> None:
        """Its connections break without a goodbye; it was opened `lossy`."""

    def raw(self, login: str) -> contextlib.AbstractAsyncContextManager[Raw]: ...

    async def raise_alarm(self) -> None: ...

    async def clear_alarm(self) -> None: ...

    async def set_consumer_timeout(self, limit_ms: int, look_every_ms: int) -> None:
        """For AMQP channels opened from now on; 0 and 0 are the broker's own."""


class Stage:
    def __init__(self, backstage: Backstage, quiet_s: float = QUIET_S) -> None:
        """`quiet_s`: so long nothing comes when nothing is under way any more."""
        self.backstage = backstage
        self.quiet_s = quiet_s
        self.transcript: list[Line] = []
        self._epochs = 0
        self._ids = 0
        self._stack = contextlib.AsyncExitStack()

    async def play(self, scenario: Scenario) -> list[Line]:
        with trio.fail_after(6 * LIMIT_S):
            async with self._stack:
                await scenario(self)
        return self.transcript

    def tell(self, *words: str | int | bool | list[str]) -> None:
        self.transcript.append(list(words))

    async def session(self, name: str, *, lossy: bool = False, login: str = "") -> Player:
        self._epochs += 1
        leave = contextlib.AsyncExitStack()
        session = await leave.enter_async_context(self.backstage.open_session(self._epochs, lossy=lossy, login=login))
        self._stack.push_async_callback(leave.aclose)
        return Player(self, name, session, leave)

    @contextlib.asynccontextmanager
    async def raw(self, *, login: str = "") -> AsyncIterator[Raw]:
        async with self.backstage.raw(login) as raw:
            yield raw

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    def said(self, error: Exception) -> str:
        """The kind of an error and what a broker of any version says in it."""
        text = str(error)
        words = re.findall(r"[A-Z]{2,}_[A-Z_]+|inequivalent arg '[^']+'|not empty|unknown delivery tag", text)
        return " ".join([type(error).__name__, *words])


class Player:
    """One session of a scenario: acts, and tells the transcript under its name."""

    def __init__(self, stage: Stage, name: str, session: BrokerSession, leave: contextlib.AsyncExitStack) -> None:
        self.stage = stage
        self.name = name
        self.session = session
        self._leave = leave
        self._deliveries: dict[str, Singly[RawDelivery]] = {}

    def tell(self, *words: str | int | bool | list[str]) -> None:
        self.stage.tell(self.name, *words)

    async def close(self) -> None:
        await self._leave.aclose()

    async def lose(self) -> None:
        """Its connections break; opened `lossy`."""
        await self.stage.backstage.cut(self.session)
        with trio.fail_after(LIMIT_S), contextlib.suppress(SessionLost):
            await self.session.run_until_lost()

    # Set-up

    async def make(self, *things: Exchange | Queue | Binding) -> None:
        """Declare; nothing is told."""
        await self.session.declare(
            [each for each in things if isinstance(each, Exchange)],
            [each for each in things if isinstance(each, Queue)],
            [each for each in things if isinstance(each, Binding)],
        )

    async def attempt(self, what: str, call: Awaitable[object]) -> None:
        """Tell what comes of `call`: its answer, or what refused it."""
        try:
            with trio.fail_after(LIMIT_S):
                answer = await call
        except (ConsumerLocked, QueueMismatch, SessionLost) as error:
            self.tell(what, self.stage.said(error))
        else:
            self.tell(what, "done" if answer is None else str(answer))

    async def count(self, queue: str) -> None:
        count = await self.session.message_count(queue)
        self.tell("count", queue, "no such queue" if count is None else count)

    async def wait_for_count(self, queue: str, count: int) -> None:
        """Wait until that many messages are ready; tell it."""
        with trio.fail_after(LIMIT_S):
            while await self.session.message_count(queue) != count:  # noqa: ASYNC110 - the broker sets no event
                await trio.sleep(_LOOK_AGAIN_S)
        self.tell("count", queue, count)

    # Publishing

    def message(
        self,
        body: bytes | str,
        *,
        to: str,
        exchange: str = "",
        mandatory: bool = True,
        expiration_ms: int = 0,
        headers: Mapping[str, bytes | str] | None = None,
    ) -> RawPublish:
        return RawPublish(
            id=self.stage.next_id(),
            exchange=exchange,
            routing_key=to,
            mandatory=mandatory,
            persistent=True,
            expiration_ms=expiration_ms,
            content_type="text/plain",
            headers={"fleet": b"header", "sig": b"s" * 64} if headers is None else headers,
            body=body.encode() if isinstance(body, str) else body,
        )

    async def publish(self, *messages: RawPublish) -> None:
        """Hand over together, and tell each verdict in the order of the messages."""
        self.session.publish(messages)
        await self.tell_verdicts(*messages)

    async def tell_verdicts(self, *messages: RawPublish) -> None:
        verdicts: dict[int, PublishVerdict] = {}
        with trio.fail_after(LIMIT_S):
            while not all(message.id in verdicts for message in messages):
                verdicts |= {verdict.id: verdict for verdict in await self.session.verdicts.receive()}
        for message in messages:
            self.tell("verdict", message.body.decode(), str(verdicts[message.id].verdict))

    async def send(self, *bodies: str, to: str, exchange: str = "", expiration_ms: int = 0) -> None:
        await self.publish(
            *[self.message(body, to=to, exchange=exchange, expiration_ms=expiration_ms) for body in bodies]
        )

    # Consuming

    async def consume(self, queue: str, *, prefetch: int = _PREFETCH, exclusive: bool = True) -> None:
        self._deliveries[queue] = await consume_singly(
            self.session, queue, prefetch=prefetch, capacity=2 * prefetch, exclusive=exclusive
        )

    async def try_to_consume(self, queue: str, *, exclusive: bool = True) -> None:
        await self.attempt(f"consume {queue}", self.consume(queue, exclusive=exclusive))

    async def take(self, queue: str, count: int = 1) -> list[RawDelivery]:
        """The next deliveries of `queue`; each is told."""
        taken = []
        with trio.fail_after(LIMIT_S):
            for _ in range(count):
                taken.append(await self._deliveries[queue].receive())
                self.tell_delivery(taken[-1])
        return taken

    def tell_delivery(self, got: RawDelivery) -> None:
        again = ["again"] if got.redelivered else []
        self.tell("got", got.queue, got.exchange, got.routing_key, got.body.decode(), *again)

    def tell_deaths(self, got: RawDelivery) -> None:
        for death in read_deaths(got.headers.x_death):
            self.tell("death of", got.body.decode(), death.reason, death.queue, death.exchange, death.count)

    async def tell_nothing_more(self, *queues: str) -> None:
        """Wait long enough for anything under way to arrive, and tell that nothing did."""
        await self.wait_a_moment()
        for queue in queues:
            more = []
            with contextlib.suppress(trio.WouldBlock):
                while True:
                    more.append(self._deliveries[queue].receive_nowait().body.decode())
            self.tell("nothing more from", queue, *more)

    async def wait_a_moment(self) -> None:
        """Long enough for whatever is under way; an answer behind it shows that it was heard."""
        await self.answer()
        await trio.sleep(self.stage.quiet_s)
        await self.answer()

    async def answer(self) -> None:
        """Have the broker say something on the consuming connection."""
        await self.session.message_count("none of this name")

    async def browse(self, queue: str) -> list[RawDelivery]:
        """Take all of `queue` without a consumer and tell it; it is not given back yet."""
        found = []
        while (got := await self.session.get(queue)) is not None:
            self.tell_delivery(got)
            found.append(got)
        return found

    async def bury(self, queue: str) -> list[RawDelivery]:
        """Browse a queue of dead letters, with how each died, and give it back."""
        found = []
        while (got := await self.session.get(queue)) is not None:
            self.tell_delivery(got)
            self.tell_deaths(got)
            found.append(got)
        await self.session.release(queue)
        return found

    # What the broker says by itself

    async def event(self) -> None:
        with trio.fail_after(LIMIT_S):
            event = await self.session.events.receive()
        match event:
            case ConsumerCancelled(queue, reason):
                self.tell("cancelled", queue, *re.findall(_REASONS, reason))
            case LinkBlocked(reason):
                self.tell("blocked", reason)
            case _:
                self.tell("unblocked")

    def tell_events(self) -> None:
        """How many events wait to be looked at."""
        self.tell("events", self.session.events.statistics().current_buffer_used)

    async def wait_until_blocked(self, stuck: RawPublish) -> None:
        """Publish until the broker reads no more (an alarm needs a moment), then hand over `stuck`."""
        with trio.fail_after(LIMIT_S):
            while True:
                self.session.publish([self.message("probe", to="nobody", mandatory=False)])
                if await self._wait_for_word():
                    break
        self.session.publish([stuck])
        await self.event()

    async def _wait_for_word(self) -> bool:
        """What the broker says next: that it is blocked, or (False) what became of the one open publish."""
        while not self.session.events.statistics().current_buffer_used:
            with contextlib.suppress(trio.WouldBlock):
                self.session.verdicts.receive_nowait()
                return False
            await trio.sleep(_LOOK_AGAIN_S)
        return True

    async def publish_empty_until_blocked(self, queue: str) -> list[RawPublish]:
        """Messages without a body, one by one, until the broker says that it is blocked; each is confirmed."""
        published: list[RawPublish] = []
        with trio.fail_after(LIMIT_S):
            while not self.session.events.statistics().current_buffer_used:
                published.append(self.message("", to=queue))
                self.session.publish(published[-1:])
                if len(published) > 1:
                    await self.session.verdicts.receive()
                await self.wait_a_moment()
        await self.event()
        return published

    async def wait_until_free(self, queue: str) -> None:
        """Until nobody consumes `queue` exclusively any more."""
        with trio.fail_after(LIMIT_S):
            while True:
                with contextlib.suppress(ConsumerLocked):
                    await self.consume(queue)
                    await self.session.stop_consuming(queue)
                    return
                await trio.sleep(_LOOK_AGAIN_S)

    async def end(self) -> None:
        """The session ends by itself: why."""
        with trio.fail_after(LIMIT_S):
            try:
                await self.session.run_until_lost()
            except SessionLost as lost:
                self.tell("lost", self.stage.said(lost))


def death_table(x_death: bytes) -> Iterator[Line]:
    """Every field of every note of a death as it stands on the wire; of the moment only that it is one."""
    at = 0
    while at < len(x_death):
        _, table, at = take_value(x_death, at)
        yield ["a death"]
        inside = 0
        while inside < len(table):
            key, inside = take_counted(table, inside, 1)
            kind, value, inside = take_value(table, inside)
            yield [key.decode(), chr(kind), "a moment" if kind == ord("T") else value.hex()]
