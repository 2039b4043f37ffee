"""Idempotency keys: the same key of the same sender stands for the same messages.

Also while the first request is still under way: what is in memory here may not be in the store yet. A key that comes
with another body or for other recipients is a mistake of the caller, and is never answered with the old messages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from fleettrio._accel import leaf_of
from fleettrio.core.actions import Fail, RecordKey
from fleettrio.core.calls import Key
from fleettrio.core.roster import Roster, Target
from fleettrio.core.rows import SentRow
from fleettrio.ids import Gid, MsgId, short_id

__all__ = ("Keys", "conflict")

_REMEMBERED = 1_024
"""Far more than can be under way; the store knows the older ones."""


class Keys:
    def __init__(self) -> None:
        self._keyed: OrderedDict[tuple[Gid, str], dict[Key, SentRow]] = OrderedDict()

    def remember(self, keyed: RecordKey, rows: dict[Key, SentRow]) -> None:
        self._keyed[(keyed.sender, keyed.key)] = rows
        if len(self._keyed) > _REMEMBERED:
            self._keyed.popitem(last=False)

    def rows(self, sender: Gid, key: str, stored: Sequence[SentRow]) -> dict[Key, SentRow]:
        """What the key stands for; `stored` is what the store has under it. Empty when it is new (or none is given)."""
        return (self._keyed.get((sender, key)) if key else None) or {(row.msg_id, row.gid): row for row in stored}

    def forget(self, message: Key) -> None:
        """There is no such message after all."""
        for name in [name for name, rows in self._keyed.items() if message in rows]:
            del self._keyed[name]

    def clear(self) -> None:
        self._keyed.clear()


def conflict(
    call: int, key: str, rows: Iterable[SentRow], body: bytes, to: Iterable[str], roster: Roster, re: MsgId | None
) -> Fail | None:
    """What the caller is told when `rows`, which the key stands for, are not what it asks for now.

    A recipient that is gone since then cannot be named any more, and is not missed.
    """
    listed = list(rows)
    now_meant = {target.gid for address in to if isinstance(target := roster.resolve(address), Target)}
    were_meant = {row.gid for row in listed}
    same_recipients = {gid for gid in were_meant if roster.knows(gid)} <= now_meant <= were_meant
    same_text = all(leaf_of(row.header, body) == row.leaf and row.re == re for row in listed)
    if same_recipients and same_text:
        return None
    what = "other recipients" if same_text else "another message"
    ids = ", ".join(sorted({short_id(row.msg_id) for row in listed}))
    text = f"key {key[:64]} was used for {what} ({ids})"
    return Fail(call=call, code=2, reason="key-conflict", message=text, hint="give every new message a new key")
