"""The fast lane of one AMQP connection, between the library and its socket: bytes in, lists out, bytes to write.

The library connects, logs in, declares, beats and closes; on a channel that is the lane's the lane publishes, hears
confirms and returns (`fastpublisher`), takes deliveries and settles them (`fastconsumer`). Nothing here waits, and
nothing knows asyncio or the library.

Rules:

1. Every byte from the broker passes `Lane.hear`. What is the lane's is taken out, all else goes on to the library in
   its order, whole frames only. What is written here is whole frames, too: so both may write.
2. What one read brings is told in one list for each channel; what is handed over together is written in one go.
3. A channel is over with its Channel.Close or CloseOk, and when we ask for that: nothing is written on it afterwards,
   for that would end the connection, and its number may be another's next.
4. The library takes a connection for dead on which it hears nothing: where the lane took all, it is given a heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from fleettrio._accel import Broken, Confirm, Delivered, FrameReader, Returned
from fleettrio.broker.fastconsumer import Consumer
from fleettrio.broker.fastpublisher import Publisher
from fleettrio.broker.links import Decided

__all__ = ("HEARTBEAT", "Lane")

HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"
_HEARTBEAT_EVERY_S = 1.0
_METHOD, _CLOSE, _CLOSE_OK = 1, b"\0\x14\0\x28", b"\0\x14\0\x29"

_Heard: TypeAlias = Delivered | Returned | Confirm


class _End(Protocol):
    """What the lane does on one channel."""

    def hear(self, found: _Heard) -> None:
        """Keep it until the end of this read."""

    def tell(self) -> None:
        """This read is over: tell what it brought."""

    def stop(self) -> None:
        """Nothing may be written on this channel any more."""


class Lane:
    """One connection. `write` takes whole frames; `soon` is asked to have `flush` called when this turn is over;
    `broken` hears why nothing can be read any more."""

    def __init__(
        self, write: Callable[[bytes], object], soon: Callable[[], object], broken: Callable[[str], object]
    ) -> None:
        self.write = write
        self._soon = soon
        self._broken = broken
        self._reader = FrameReader(0)
        self._is_amqp: bool | None = None
        self._ends: dict[int, _End] = {}
        self._publishers: list[Publisher] = []
        self._settling: dict[int, Consumer] = {}
        self._passed_on_at = 0.0
        self._holds: set[str] = set()
        self.frame_max = 0

    def begin(self, frame_max: int) -> None:
        """Connected; `frame_max` bytes is the largest frame, 0: there is no limit."""
        self.frame_max = self._reader.frame_max = frame_max

    def publisher(self, channel: int, decided: Decided) -> Publisher:
        """Take `channel`, which is open and has confirms, for publishing."""
        publisher = Publisher(self, channel, decided)
        self._publishers.append(publisher)
        self._take(channel, publisher)
        return publisher

    def consumer(self, channel: int, epoch: int, serial: int) -> Consumer:
        """Take `channel`, which is open, for one consumer after the other."""
        consumer = Consumer(channel, epoch, serial, self._settle_soon)
        self._take(channel, consumer)
        return consumer

    def _take(self, channel: int, end: _End) -> None:
        self._reader.take(channel)
        self._ends[channel] = end

    def stop(self, channel: int) -> None:
        """Its Channel.Close is about to be written; what the broker says until it answers is still heard."""
        if channel in self._ends:
            self._ends[channel].stop()

    def _over(self, channel: int) -> None:
        end = self._ends.pop(channel, None)
        if end is not None:
            self._reader.leave(channel)
            self._publishers = [each for each in self._publishers if each is not end]
            end.stop()

    # Hearing

    def hear(self, data: bytes, now: float) -> bytes:
        """Take out of `data` what is ours, tell it, and return what is the library's. `now`: monotonic seconds."""
        if self._is_amqp is None:
            self._is_amqp = data[:1] != b"A"  # a header instead of a frame: the peer wants another protocol
        if not self._is_amqp:
            return data
        rest: list[bytes] = []
        heard: dict[int, _End] = {}
        for found in self._reader.feed(data):
            if isinstance(found, bytes):
                rest.append(found)
                if found[0] == _METHOD and found[7:11] in (_CLOSE, _CLOSE_OK):
                    self._over(int.from_bytes(found[1:3], "big"))
            elif isinstance(found, Broken):
                self._broken(found.why)
            elif found.channel in self._ends:
                end = heard[found.channel] = self._ends[found.channel]
                end.hear(found)
        for end in heard.values():
            end.tell()
        if rest or (heard and now - self._passed_on_at >= _HEARTBEAT_EVERY_S):
            self._passed_on_at = now
            return b"".join(rest) or HEARTBEAT
        return b""

    # Writing

    def hold(self, why: str) -> None:
        """Publishes wait until `release(why)`; acks go on."""
        self._holds.add(why)

    def release(self, why: str) -> None:
        self._holds.discard(why)
        for publisher in self._publishers:
            publisher.go_on()

    @property
    def is_held(self) -> bool:
        return bool(self._holds)

    def _settle_soon(self, consumer: Consumer) -> None:
        if not self._settling:
            self._soon()
        self._settling[consumer.channel] = consumer

    def flush(self) -> None:
        """Write what was settled since the last time."""
        settling, self._settling = self._settling, {}
        frames = [frame for consumer in settling.values() for frame in consumer.settlements()]
        if frames:
            self.write(b"".join(frames))
