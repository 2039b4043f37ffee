"""What the fast lane does on a channel that publishes: bytes to write, and one verdict of each message.

Rules:

1. Messages are written in the order in which they were handed over, many in one go, and none while the lane is held.
2. The broker counts what it gets, and so is it counted here: a confirm is found by its delivery tag, a return by the
   publish id. A message that cannot be encoded is never counted.
3. The first verdict of a message is its only one: behind a return comes a confirm, which then finds nothing.
4. With the channel all that is open ends `UNKNOWN`, and so does what is handed over later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from fleettrio._accel import Confirm, Returned, encode_publishes
from fleettrio.broker.links import Decided
from fleettrio.broker.port import PublishVerdict, RawPublish, Verdict
from fleettrio.wire.headers import MAX_TABLE

__all__ = ("Publisher", "Way")

_CHUNK = 256 * 1024
"""Bytes of bodies that are encoded together: what waits for a slow broker waits as it was handed over."""


class Way(Protocol):
    """The lane, as far as a publisher knows it."""

    write: Callable[[bytes], object]
    frame_max: int

    @property
    def is_held(self) -> bool: ...


class Publisher:
    """A channel that publishes; its confirms are found by their delivery tags, its returns by their publish ids."""

    def __init__(self, lane: Way, channel: int, decided: Decided) -> None:
        self._lane = lane
        self._channel = channel
        self._decided = decided
        self._waiting: deque[RawPublish] = deque()
        self._ids: dict[int, int] = {}
        """Publish ids by the delivery tags that the broker counts: what is written and not decided."""
        self._tags: dict[int, int] = {}
        """The same the other way."""
        self._next = 1
        self._first = 1
        """No lower tag is open."""
        self._news: list[PublishVerdict] = []
        self._is_stopped = False
        self._closed_why = ""

    def publish(self, messages: Sequence[RawPublish]) -> None:
        """Hand over, in order."""
        self._waiting.extend(messages)
        if self._closed_why:
            self.give_up(self._closed_why)
        else:
            self.go_on()

    def go_on(self) -> None:
        """Write what waits, unless it has to."""
        while self._waiting and not self._lane.is_held and not self._is_stopped:
            chunk, size = [], 0
            while self._waiting and size < _CHUNK:
                chunk.append(self._waiting.popleft())
                size += len(chunk[-1].body)
            self._write(chunk)

    def _write(self, chunk: list[RawPublish]) -> None:
        frames, left_out = encode_publishes(self._channel, self._lane.frame_max, MAX_TABLE, chunk)
        ids = [message.id for index, message in enumerate(chunk) if index not in left_out]
        tags = range(self._next, self._next + len(ids))
        self._next += len(ids)
        self._ids.update(zip(tags, ids, strict=True))
        self._tags.update(zip(ids, tags, strict=True))
        if frames:
            self._lane.write(frames)
        if left_out:
            # In the words for "the broker will not have it", which it would not.
            refused = [(chunk[index].id, f"not sent: {why}") for index, why in left_out.items()]
            self._decided([PublishVerdict(publish_id, Verdict.NACKED, why) for publish_id, why in refused])

    def hear(self, found: object) -> None:
        """A confirm or a return; told with all that the same read brings."""
        if isinstance(found, Confirm):
            self._confirmed(found)
        elif isinstance(found, Returned) and found.message_id.isdecimal():
            # Behind it comes a confirm, which then finds nothing: where it went is decided.
            publish_id = int(found.message_id)
            tag = self._tags.pop(publish_id, None)
            if tag is not None:
                del self._ids[tag]
                self._decide(publish_id, Verdict.UNROUTABLE, "no queue is bound to this routing key")

    def _confirmed(self, confirm: Confirm) -> None:
        """Each tag is looked at once for its own confirm and once for one of many: O(1), whatever the broker says."""
        tag, newest = confirm.delivery_tag, self._next - 1
        tags: Iterable[int] = (tag,)
        if confirm.multiple:
            last = min(tag, newest) if tag else newest
            tags = range(self._first, last + 1)
            self._first = max(self._first, last + 1)
        for each in tags:
            publish_id = self._ids.pop(each, None)
            if publish_id is not None:
                del self._tags[publish_id]
                if confirm.nacked:
                    self._decide(publish_id, Verdict.NACKED, "the broker refused it: a queue is full")
                else:
                    self._decide(publish_id, Verdict.CONFIRMED, "")

    def _decide(self, publish_id: int, verdict: Verdict, detail: str) -> None:
        self._news.append(PublishVerdict(publish_id, verdict, detail))

    def tell(self) -> None:
        """This read is over: tell what it decided."""
        news, self._news = self._news, []
        if news:
            self._decided(news)

    def stop(self) -> None:
        """Nothing may be written on this channel any more."""
        self._is_stopped = True

    def give_up(self, why: str) -> None:
        """The channel is closed, for this reason: what is open will never be confirmed."""
        self._is_stopped, self._closed_why = True, why
        lost = [*self._ids.values(), *(message.id for message in self._waiting)]
        self._ids.clear()
        self._tags.clear()
        self._waiting.clear()
        if lost:
            self._decided([PublishVerdict(each, Verdict.UNKNOWN, f"no confirm: {why}") for each in lost])
