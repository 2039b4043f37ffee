"""Other AMQP clients that do the same work: the programs in `benchmarks/peers`, at the window that suits each best."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import secrets
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from fleettrio.bench.context import Context, checkout
from fleettrio.bench.figures import Hop, cpu_s
from fleettrio.bench.programs import CountsDiffer, Program, last_line, program, wait_ready
from fleettrio.errors import FleetTrioError
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.definitions import definitions
from fleettrio.testing.hosts import clean_environment
from fleettrio.testing.waiting import wait_until

__all__ = ("PEERS", "Peer", "PeerMissing", "Peers", "command_of", "suspect")

QUEUES = ("hop", "ask", "answer")
WINDOWS = (64, 256, 1024)
BODY = 1024
SUSPECT_BELOW = 0.8


class PeerMissing(FleetTrioError):
    """This peer cannot run here; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """`known` is the share of the raw socket's hops to expect: far below it, something is wrong with the comparison.

    The shares are about half of those seen on two busy cores: on idle ones the raw socket gains more than the others.
    """

    name: str
    file: str
    needs: str
    known: float
    options: tuple[str, ...] = ()
    venv: str = ".venv"


PEERS = {
    peer.name: peer
    for peer in (
        Peer("raw socket", "raw_socket.py", "pamqp", 1.0),
        Peer("pika", "pika_select.py", "pika", 0.45),
        Peer("aio-pika", "aio_pika_client.py", "aio_pika", 0.14),
        Peer("aio-pika/uvloop", "aio_pika_client.py", "uvloop", 0.16, ("--uvloop",)),
        Peer("FastStream", "faststream_client.py", "faststream", 0.09, venv=".venv-peers"),
    )
}


def suspect(peer: Peer, share_of_raw: float) -> bool:
    """Whether it did so much worse than it is known to that no verdict should stand on it."""
    return share_of_raw < SUSPECT_BELOW * peer.known


class _Told(msgspec.Struct):
    began: float = 0.0
    ended: float = 0.0
    cpu: float = 0.0
    distinct: int = 0
    got: int = 0
    seconds: list[float] = []


class Peers:
    """Runs peers on a virtual host of their own."""

    def __init__(self, context: Context, port: int = 0) -> None:
        """They find the broker at `port`, if given."""
        self._broker: BrokerNode = context.broker()
        self._port = port or self._broker.port
        self._vhost = ""
        self._windows: dict[str, int] = {}

    def hop(self, peer: Peer, count: int, window: int, body: int = BODY) -> Hop:
        """One process publishes `count` messages of `body` bytes while another takes them."""
        with self._queues():
            return self._hop(peer, count, self._job(count, window, body))

    def _hop(self, peer: Peer, count: int, job: bytes) -> Hop:
        with self._run(peer, "consume", job) as taking:
            wait_ready(taking)
            before = cpu_s(self._broker.pid)
            with self._run(peer, "publish", job) as sending:
                sent = msgspec.json.decode(last_line(sending), type=_Told)
            got = msgspec.json.decode(last_line(taking), type=_Told)
        broker = cpu_s(self._broker.pid) - before
        if not got.got == got.distinct == count:
            raise CountsDiffer(f"{peer.name}: of {count} messages {got.got} came, {got.distinct} of them different")
        return Hop(count, got.ended - sent.began, sent.cpu, got.cpu, broker)

    def trips(self, peer: Peer, count: int) -> list[float]:
        """Seconds of `count` calls, each sent when the one before was answered."""
        with self._queues():
            return self._trips(peer, self._job(count, 1))

    def _trips(self, peer: Peer, job: bytes) -> list[float]:
        with self._run(peer, "serve", job) as serving:
            wait_ready(serving)
            with self._run(peer, "call", job) as calling:
                return msgspec.json.decode(last_line(calling), type=_Told).seconds

    def best_window(self, peer: Peer, count: int) -> int:
        """The window at which it is quickest here, found once with `count` messages at each."""
        if peer.name not in self._windows:
            rates = {window: self.hop(peer, count, window).rate for window in WINDOWS}
            self._windows[peer.name] = max(rates, key=rates.__getitem__)
        return self._windows[peer.name]

    @contextlib.contextmanager
    def _queues(self) -> Iterator[None]:
        """Empty queues; after a round that broke off new ones, so that nothing it left is counted."""
        if not self._vhost:
            vhost = f"peers-{secrets.token_hex(4)}"
            self._broker.import_definitions(_topology(vhost))
            alive = f'rabbit_vhost_sup_sup:is_vhost_alive(<<"{vhost}">>).'
            wait_until("the peers' virtual host is up", lambda: "true" in self._broker.evaluate(alive))
            self._vhost = vhost
        try:
            yield
        except BaseException:
            self._vhost = ""
            raise

    def _job(self, count: int, window: int, body: int = BODY) -> bytes:
        place = {"host": "127.0.0.1", "port": self._port, "vhost": self._vhost}
        return msgspec.json.encode({**place, "count": count, "window": window, "body": body})

    def _run(self, peer: Peer, mode: str, job: bytes) -> contextlib.AbstractContextManager[Program]:
        command = [*command_of(peer), mode, *peer.options]
        return program(command, job, {**clean_environment(), "PYTHONDONTWRITEBYTECODE": "1"})


def command_of(peer: Peer) -> list[str]:
    """The Python that has what it needs, and its program. Raises `PeerMissing`."""
    root = checkout()
    if root is None:
        raise PeerMissing(f"{peer.name}: fleettrio does not run from a checkout, where benchmarks/peers is")
    file = root / "benchmarks" / "peers" / peer.file
    python = root / peer.venv / "bin" / "python"
    if peer.venv != ".venv" and python.exists():
        return [str(python), str(file)]
    if importlib.util.find_spec(peer.needs) is None:
        raise PeerMissing(f"{peer.name}: {peer.needs} is not installed (make peers)")
    return [sys.executable, str(file)]


def _topology(vhost: str) -> dict[str, Any]:
    """Durable classic queues on a topic exchange, each bound by its own name."""
    plain: dict[str, Any] = {"vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}}
    route = {"source": "peers", "vhost": vhost, "destination_type": "queue", "arguments": {}}
    return {
        **definitions(vhost, {}, admin="guest"),
        "exchanges": [{"name": "peers", "type": "topic", "internal": False, **plain}],
        "queues": [{"name": queue, **plain} for queue in QUEUES],
        "bindings": [{**route, "destination": queue, "routing_key": queue} for queue in QUEUES],
    }
