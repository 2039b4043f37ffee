"""Idempotency keys: the same key of the same sender stands for the same messages.

Also while the first request is still under way: what is in memory here may not be in the store yet. A key that comes
with another body or for other recipients is a mistake of the caller, and is never answered with the old messages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence

from fleettrio._accel import leaf_of
from fleettrio.core.actions import Action, Fail, RecordKey
from fleettrio.core.calls import SendCall
from fleettrio.core.outbox import Outbox
from fleettrio.core.requests import BroadcastAsked, CoordAsked, ReplyAsked, SendAsked
from fleettrio.core.roster import Roster, Target
from fleettrio.core.rows import Key, SentRow
from fleettrio.core.waits import Waits
from fleettrio.errors import USAGE
from fleettrio.ids import Gid, MsgId, short_id

__all__ = ("Keys",)

_REMEMBERED = 1_024
"""Far more than can be under way; the store knows the older ones."""


class Keys:
    def __init__(self, roster: Roster, outbox: Outbox, waits: Waits) -> None:
        self._roster = roster
        self._outbox = outbox
        self._waits = waits
        self._keyed: OrderedDict[tuple[Gid, str], dict[Key, SentRow]] = OrderedDict()

    def again(self, event: SendAsked | ReplyAsked, to: Sequence[str], re: MsgId | None = None) -> list[Action] | None:
        """The answer when its key stands for messages already; None when it is new (or none was given)."""
        rows = self._rows(event.sender, event.key, event.known)
        return self._answer(event.call, rows, self._other(event, rows.values(), to, re)) if rows else None

    def again_to(self, event: BroadcastAsked | CoordAsked, to: str) -> list[Action] | None:
        """The same; what was sent to a group may have other members by now."""
        rows = self._rows(event.sender, event.key, event.known)
        same = all(row.to == to and leaf_of(row.header, event.body) == row.leaf for row in rows.values())
        return self._answer(event.call, rows, None if same else _conflict(event, "another message")) if rows else None

    def keyed(self, key: str, sender: Gid, rows: dict[Key, SentRow]) -> RecordKey | None:
        """Remember what the key stands for; the action that records it, if there is a key."""
        if not key:
            return None
        recorded = RecordKey(key, sender, tuple(dict.fromkeys(msg_id for msg_id, _ in rows)))
        self.remember(recorded, rows)
        return recorded

    def remember(self, keyed: RecordKey, rows: dict[Key, SentRow]) -> None:
        """What the key stands for, before the store has it."""
        self._keyed[(keyed.sender, keyed.key)] = rows
        if len(self._keyed) > _REMEMBERED:
            self._keyed.popitem(last=False)

    def forget(self, message: Key) -> None:
        """There is no such message after all."""
        for name in [name for name, rows in self._keyed.items() if message in rows]:
            del self._keyed[name]

    def clear(self) -> None:
        """A list of actions could not be recorded: what the last keys stand for is in the store, or nowhere."""
        self._keyed.clear()

    # --- inside

    def _rows(self, sender: Gid, key: str, stored: Sequence[SentRow]) -> dict[Key, SentRow]:
        """What the key stands for; `stored` is what the store has under it. Empty when it is new (or none is given)."""
        return (self._keyed.get((sender, key)) if key else None) or {row.key: row for row in stored}

    def _answer(self, call: int, rows: dict[Key, SentRow], conflict: Fail | None) -> list[Action]:
        """The call is told of a conflict, or waits for what these messages come to."""
        if conflict is not None:
            return [conflict]
        self._waits.add_send(SendCall(call, {name: self._outbox.get(name) or row for name, row in rows.items()}))
        return []

    def _other(
        self, event: SendAsked | ReplyAsked, rows: Collection[SentRow], to: Iterable[str], re: MsgId | None
    ) -> Fail | None:
        """What the caller is told when the messages that the key stands for are not what it asks for now.

        A recipient that is gone since then cannot be named any more, and is not missed.
        """
        now_meant = {target.gid for address in to if isinstance(target := self._roster.resolve(address), Target)}
        were_meant = {row.gid for row in rows}
        same_recipients = {gid for gid in were_meant if self._roster.knows(gid)} <= now_meant <= were_meant
        same_text = all(leaf_of(row.header, event.body) == row.leaf and row.re == re for row in rows)
        if same_recipients and same_text:
            return None
        ids = ", ".join(sorted({short_id(row.msg_id) for row in rows}))
        return _conflict(event, f"{'other recipients' if same_text else 'another message'} ({ids})")


def _conflict(event: SendAsked | ReplyAsked | BroadcastAsked | CoordAsked, what: str) -> Fail:
    text = f"key {event.key[:64]} was used for {what}"
    return Fail(event.call, USAGE, "key-conflict", text, "give every new message a new key")
