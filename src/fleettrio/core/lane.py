"""What waits for one recipient, in the order it may go.

By `priority`, then arrival, but never before an earlier one of the same sender and `when`: so only the first of each
(sender, when) is eligible, and among those the highest priority, then the earliest arrival, is next.

Whoever takes some of them pays for those, and not for all that wait. Rows may leave while they are gone through.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Iterator

from fleettrio.core.rows import CALL, InboxRow, Key
from fleettrio.ids import Gid

__all__ = ("Lane", "urgency")

FEW = 256
"""Rows of a queue that are looked up at once; hardly anybody goes on behind them."""

_Queue = OrderedDict[Key, InboxRow]


def urgency(row: InboxRow) -> tuple[int, int]:
    """What orders rows of different senders: the least goes first."""
    return -row.priority, row.seq


class Lane:
    def __init__(self) -> None:
        self._queues: dict[tuple[Gid, str], _Queue] = {}
        self._unsorted: set[tuple[Gid, str]] = set()
        """Queues into which a row came back to its old place."""
        self.count = 0
        self.bytes = 0

    def add(self, row: InboxRow) -> None:
        """Queue a waiting row at the place its arrival gives it (a row that comes back goes to its old place)."""
        name = (row.sender, row.when)
        queue = self._queues.setdefault(name, OrderedDict())
        key = row.key
        if key not in queue:
            self.count += 1
            self.bytes += row.size
            if queue and queue[next(reversed(queue))].seq > row.seq:
                self._unsorted.add(name)
        queue[key] = row

    def remove(self, row: InboxRow) -> None:
        name = (row.sender, row.when)
        queue = self._queues.get(name)
        if queue is None or queue.pop(row.key, None) is None:
            return
        self.count -= 1
        self.bytes -= row.size
        if not queue:
            del self._queues[name]

    def queues(self) -> Iterator[Iterator[InboxRow]]:
        """The rows of each sender and `when`, in the order in which they came; not those that only calls take."""
        return (_rows(queue) for (_, when), queue in self._in_place() if when != CALL)

    def in_order(self, sender: Gid | None = None, when: str | None = None) -> Iterator[InboxRow]:
        """All rows in the order they will go; of one sender, or with one `when`, if named."""
        named = [_rows(q) for (s, w), q in self._in_place() if sender in (None, s) and when in (None, w)]
        if len(named) == 1:
            yield from named[0]
            return
        heads = [(urgency(row), number, row) for number, queue in enumerate(named) if (row := next(queue, None))]
        heapq.heapify(heads)
        while heads:
            _, number, row = heads[0]
            yield row
            if following := next(named[number], None):
                heapq.heapreplace(heads, (urgency(following), number, following))
            else:
                heapq.heappop(heads)

    def __iter__(self) -> Iterator[InboxRow]:
        return (row for _, queue in self._in_place() for row in queue.values())

    def _in_place(self) -> list[tuple[tuple[Gid, str], _Queue]]:
        """Each queue, with every row in its place."""
        for name in self._unsorted & self._queues.keys():
            self._queues[name] = OrderedDict(sorted(self._queues[name].items(), key=lambda item: item[1].seq))
        self._unsorted.clear()
        return [*self._queues.items()]


def _rows(queue: _Queue) -> Iterator[InboxRow]:
    """From the first on; what leaves meanwhile is left out."""
    first = [*itertools.islice(queue, FEW)]
    yield from (row for key in first if (row := queue.get(key)))
    if len(first) == FEW:
        seen = set(first)
        yield from (row for key in [*queue] if key not in seen and (row := queue.get(key)))
