"""The lanes that must agree: the real broker by either way through the border, and the model."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Protocol

import msgspec
import trio
import trio.testing

from fleettrio.broker.amqp import open_border, open_session
from fleettrio.broker.memory import SETTINGS, MemoryBroker, MemorySession
from fleettrio.broker.model.broker import ModelBroker
from fleettrio.broker.model.client import ModelChannel, ModelConnection
from fleettrio.broker.model.frames import ChannelClosed, Confirmed, Returned
from fleettrio.broker.model.message import Message, Value, encode_table
from fleettrio.broker.port import BrokerSession, BrokerSettings
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.definitions import definitions
from fleettrio.testing.proxy import Proxy
from fleettrio.testing.raw_client import RawClient, RawClientError, properties
from tests.contract.stage import QUIET_S, Line, Raw, Scenario, Stage
from tests.lanes import lane_of

PASSWORD = "not guessed"
NO_LOGINS = "the model knows no logins"


class Lane(Protocol):
    name: str

    def play(self, scenario: Scenario) -> list[Line]:
        """Play it on a fresh virtual host, and return its transcript."""

    def patient(self) -> Lane:
        """Another one, on which everything has more time to arrive: a busy machine may need it."""


class RabbitLane:
    """The real broker by one of the lanes to it, each scenario in a virtual host of its own."""

    def __init__(self, broker: BrokerNode, vhost: str, name: str = "fast", *, quiet_s: float = QUIET_S) -> None:
        self._broker, self._vhost, self.name, self._quiet_s = broker, vhost, name, quiet_s
        self._hosts: tuple[str, ...] = ()
        """Those with a login of their own, the reporter first."""

    def patient(self) -> RabbitLane:
        vhost = f"{self._vhost}-{secrets.token_hex(4)}"  # goes with the broker
        self._broker.add_vhost(vhost)
        again = RabbitLane(self._broker, vhost, self.name, quiet_s=10 * QUIET_S)
        if self._hosts:
            again.add_logins(*self._hosts, reporter=self._hosts[0])
        return again

    def add_logins(self, *hosts: str, reporter: str) -> None:
        """A login of its own for each host, with the rights that it needs; over everything that the fleet shares."""
        self._hosts = (reporter, *(host for host in hosts if host != reporter))
        logins = {host: (f"{self._vhost}-{host}", PASSWORD) for host in hosts}
        self._broker.import_definitions(definitions(self._vhost, logins, reporter=reporter, admin="guest"))

    def play(self, scenario: Scenario) -> list[Line]:
        return trio.run(self._play, scenario)

    async def _play(self, scenario: Scenario) -> list[Line]:
        async with open_border():
            return await Stage(_Rabbit(self._broker, self._vhost, self.name), self._quiet_s).play(scenario)


class _Rabbit:
    """See `Backstage`."""

    def __init__(self, broker: BrokerNode, vhost: str, lane: str) -> None:
        self._broker, self._vhost, self._lane = broker, vhost, lane
        self._proxies: dict[int, Proxy] = {}

    @contextlib.asynccontextmanager
    async def open_session(self, epoch: int, *, lossy: bool, login: str) -> AsyncIterator[BrokerSession]:
        broker = self._broker
        if login:
            uri = broker.uri(f"{self._vhost}-{login}", self._vhost, password=PASSWORD, secure=True)
            settings = BrokerSettings(uris=(uri,), ca_file=str(broker.ca_file))
            async with self._open(settings, epoch) as session:
                yield session
            return
        uri = broker.uri(vhost=self._vhost)
        with contextlib.ExitStack() as stack:
            if lossy:
                self._proxies[epoch] = proxy = stack.enter_context(Proxy(broker.port))
                uri = uri.replace(f":{broker.port}/", f":{proxy.port}/")
            async with self._open(BrokerSettings(uris=(uri,)), epoch) as session:
                yield session

    @contextlib.asynccontextmanager
    async def _open(self, settings: BrokerSettings, epoch: int) -> AsyncIterator[BrokerSession]:
        limits = {"call_limit_s": 30.0, "connect_limit_s": 30.0}
        settings = msgspec.structs.replace(settings, fast_lane=self._lane == "fast", **limits)
        async with open_session(settings, epoch) as session:
            assert session.lane == lane_of(settings)
            yield session

    async def cut(self, session: BrokerSession) -> None:
        self._proxies[session.epoch].cut()

    @contextlib.asynccontextmanager
    async def raw(self, login: str) -> AsyncIterator[Raw]:
        user, password = (f"{self._vhost}-{login}", PASSWORD) if login else ("guest", "guest")

        def connect() -> RawClient:
            return RawClient(self._broker.port, self._vhost, user=user, password=password)

        with await trio.to_thread.run_sync(connect) as client:
            yield _RabbitRaw(client)

    async def raise_alarm(self) -> None:
        await trio.to_thread.run_sync(self._broker.raise_memory_alarm)

    async def clear_alarm(self) -> None:
        await trio.to_thread.run_sync(self._broker.clear_alarm)

    async def set_consumer_timeout(self, limit_ms: int, look_every_ms: int) -> None:
        await trio.to_thread.run_sync(self._broker.set_consumer_timeout, limit_ms, look_every_ms)


class _RabbitRaw:
    def __init__(self, client: RawClient) -> None:
        self._client = client

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
        table = encode_table({"fleet": b"header", "sig": b"s" * 64, **(headers or {})})
        content = properties(table, expiration=expiration)

        def publish() -> list[str]:
            self._client.send(exchange, key, content, body, mandatory=mandatory)
            try:
                return self._client.outcome()
            except RawClientError as error:
                return [f"closed {str(error).split()[4]}"]

        return await trio.to_thread.run_sync(publish)


class ModelLane:
    """The model, in virtual time."""

    name = "model"

    def patient(self) -> ModelLane:
        return self

    def play(self, scenario: Scenario) -> list[Line]:
        return trio.run(self._play, scenario, clock=trio.testing.MockClock(autojump_threshold=0))

    async def _play(self, scenario: Scenario) -> list[Line]:
        memory = MemoryBroker(ModelBroker(vhost="model"))
        async with trio.open_nursery() as nursery:
            await nursery.start(memory.run_time)
            transcript = await Stage(_Model(memory)).play(scenario)
            nursery.cancel_scope.cancel()
        return transcript


class _Model:
    """See `Backstage`."""

    def __init__(self, memory: MemoryBroker) -> None:
        self._memory = memory

    def open_session(
        self, epoch: int, *, lossy: bool, login: str
    ) -> contextlib.AbstractAsyncContextManager[BrokerSession]:
        assert not login, NO_LOGINS
        return self._memory.open(SETTINGS, epoch)

    async def cut(self, session: BrokerSession) -> None:
        assert isinstance(session, MemorySession)
        session.lose()

    @contextlib.asynccontextmanager
    async def raw(self, login: str) -> AsyncIterator[Raw]:
        assert not login, NO_LOGINS
        connection = self._memory.model.connect("raw")
        try:
            yield _ModelRaw(connection, self._memory.flow)
        finally:
            connection.lose()

    async def raise_alarm(self) -> None:
        self._memory.model.raise_alarm()
        self._memory.flow()

    async def clear_alarm(self) -> None:
        self._memory.model.clear_alarm()
        self._memory.flow()

    async def set_consumer_timeout(self, limit_ms: int, look_every_ms: int) -> None:
        self._memory.model.set_consumer_timeout(limit_ms, look_every_ms)


class _ModelRaw:
    def __init__(self, connection: ModelConnection, flow: Callable[[], None]) -> None:
        self._connection = connection
        self._channel: ModelChannel = connection.open_channel(confirms=True)
        self._flow = flow

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
        message = Message(
            exchange=exchange,
            routing_key=key,
            body=body,
            headers={"fleet": b"header", "sig": b"s" * 64, **(headers or {})},
            expiration_ms=int(expiration) if expiration else None,
        )
        self._channel.publish(message, mandatory=mandatory)
        words = list(self._words())
        self._flow()
        return words

    def _words(self) -> Iterator[str]:
        for frame in self._connection.take():
            match frame:
                case Returned():
                    yield "return 312 NO_ROUTE"
                case Confirmed(_, _, ok):
                    yield "ack" if ok else "nack"
                case ChannelClosed(_, code, _):
                    yield f"closed {code}"
