"""A TCP proxy on loopback between a host and its broker, which fails in the ways that networks fail.

Rules: black-holed, nothing is passed on and nothing is lost; new connections are taken and hear nothing. Refused,
nobody listens, and what was connected is cut. A cut loses what was under way. Each verb holds for all that comes after
its return. Blocking threads do the work: one accepts, two serve each connection.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from fleettrio.testing.ports import held_port

__all__ = ("Proxy", "Tap")

_CHUNK = 64 * 1024
_DIAL_S = _END_S = 30.0

Tap = Callable[[bool], Callable[[bytes], None]]
"""Asked once for each way of each connection (True: to the broker) for whom to tell what passes; called in threads."""


class Proxy:
    """`with Proxy(broker.port) as proxy:` listens on `proxy.port`, and passes on from the start."""

    def __init__(self, target_port: int, tap: Tap | None = None) -> None:
        self._tap = tap
        self._target = ("127.0.0.1", target_port)
        # Holds the port while nobody listens: no other process takes it, and connecting to it is refused.
        self._holder = held_port()
        self.port: int = self._holder.getsockname()[1]
        self._listener: socket.socket | None = None
        self._passes = threading.Event()
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.forward()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        self._passes.set()
        self._holder.close()
        for thread in self._threads:
            thread.join(_END_S)

    # What the network does

    def forward(self) -> None:
        """Listen, and pass on everything: first what a black hole held back, in order."""
        if self._listener is None:
            self._listener = held_port(self.port)
            self._listener.listen()
            self._start(self._accept, self._listener)
        self._passes.set()

    def black_hole(self) -> None:
        """Pass nothing on, either way; connections stay open and silent."""
        self._passes.clear()

    def refuse(self) -> None:
        """Listen no more, and cut what is connected."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            _shut(listener)
        self.cut()

    def cut(self) -> None:
        """End every connection. What a black hole held back is lost."""
        with self._lock:
            ends, self._ends = self._ends, set()
        _shut(*ends)

    # Its threads

    def _start(self, run: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=run, args=arguments, name=f"proxy-{self.port}", daemon=True)
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        """Until it is shut. Closing it is what makes its port refuse."""
        with listener, contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                with self._lock:
                    if self._listener is not listener:
                        client.close()
                        return
                    self._ends.add(client)
                self._start(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        """Dial the broker as soon as something may pass, and pass on until both sides are gone."""
        with contextlib.suppress(OSError), client:
            self._passes.wait()
            with socket.create_connection(self._target, _DIAL_S) as server:
                server.settimeout(None)
                with self._lock:
                    self._ends.add(server)
                back = threading.Thread(target=self._pass_on, args=(server, client, False), daemon=True)
                back.start()
                self._pass_on(client, server, True)
                back.join()
        with self._lock:
            self._ends = {end for end in self._ends if end.fileno() >= 0}

    def _pass_on(self, source: socket.socket, sink: socket.socket, to_broker: bool) -> None:
        """One way, until its `source` has ended or its `sink` is gone. What was said the other way still arrives."""
        heard = self._tap(to_broker) if self._tap else None
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self._passes.wait()
                if heard:
                    heard(data)
                sink.sendall(data)
            self._passes.wait()
            sink.shutdown(socket.SHUT_WR)


def _shut(*ends: socket.socket) -> None:
    """Also wakes the threads that wait in them, which closing would not do."""
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
