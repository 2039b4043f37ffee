"""What waits for one recipient, in the order it may go.

By `priority`, then arrival, but never before an earlier one of the same sender and `when`: so only the first of each
(sender, when) is eligible, and among those the highest priority, then the earliest arrival, is next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from fleettrio.core.calls import Key
from fleettrio.core.rows import InboxRow
from fleettrio.ids import Gid

__all__ = ("Lane",)


class Lane:
    def __init__(self) -> None:
        self._queues: dict[tuple[Gid, str], OrderedDict[Key, InboxRow]] = {}
        self.count = 0
        self.bytes = 0

    def add(self, row: InboxRow) -> None:
        """Queue a waiting row at the place its arrival gives it (a row that comes back goes to its old place)."""
        queue = self._queues.setdefault((row.sender, row.when), OrderedDict())
        key = (row.msg_id, row.gid)
        if key in queue:
            queue[key] = row
            return
        self.count += 1
        self.bytes += row.size
        is_back = bool(queue) and next(reversed(queue.values())).seq > row.seq
        queue[key] = row
        if is_back:
            for other in sorted(queue.values(), key=lambda r: r.seq):
                queue.move_to_end((other.msg_id, other.gid))

    def remove(self, row: InboxRow) -> None:
        name = (row.sender, row.when)
        queue = self._queues.get(name)
        if queue is None or queue.pop((row.msg_id, row.gid), None) is None:
            return
        self.count -= 1
        self.bytes -= row.size
        if not queue:
            del self._queues[name]

    def heads(self) -> Iterator[InboxRow]:
        """The rows that may go next, one per sender and `when`, most urgent first."""
        heads = [next(iter(queue.values())) for queue in self._queues.values()]
        return iter(sorted(heads, key=lambda row: (-row.priority, row.seq)))

    def in_order(self, sender: Gid | None = None) -> Iterator[InboxRow]:
        """All rows in the order they will go, those of one sender if named."""
        queues = [list(q.values()) for (who, _), q in self._queues.items() if sender in (None, who)]
        while queues:
            queues.sort(key=lambda queue: (-queue[0].priority, queue[0].seq))
            yield queues[0].pop(0)
            if not queues[0]:
                queues.pop(0)

    def __iter__(self) -> Iterator[InboxRow]:
        return (row for queue in self._queues.values() for row in queue.values())
