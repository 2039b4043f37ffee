"""The routing fork: which way a message goes, by where its recipient lives.

Rules:
1. A recipient on this host gets it through the bus, and no broker is touched. Any other one gets it by a publish with
   its gid, at the broker that its kind goes by.
2. Where there is no way it fails here and now, by a row that says so. Nothing waits for a way.
3. What an idempotency key stands for is recorded together with the key.
"""

from __future__ import annotations

import msgspec

from fleettrio.core.actions import Action, Publish, RecordKey, RecordSent
from fleettrio.core.calls import SendCall
from fleettrio.core.compose import Identity, sent_row
from fleettrio.core.guard import Guard
from fleettrio.core.inbox import Inbox
from fleettrio.core.keys import Keys
from fleettrio.core.link import Link
from fleettrio.core.outbox import Outbox
from fleettrio.core.roster import Roster, Target
from fleettrio.core.rows import Key, SentRow, SentState
from fleettrio.core.waits import Waits
from fleettrio.ids import Now
from fleettrio.wire.envelope import Envelope, encode_envelope
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Fork",)


class Fork:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        link: Link,
        inbox: Inbox,
        outbox: Outbox,
        waits: Waits,
        guard: Guard,
        keys: Keys,
    ) -> None:
        self._me = me
        self._roster = roster
        self._link = link
        self._inbox = inbox
        self._outbox = outbox
        self._waits = waits
        self._guard = guard
        self._keys = keys
        self.links: dict[str, Link] = {}
        """Kinds that go by another broker than the fleet's."""

    def link_of(self, kind: str) -> Link:
        """The link to the broker that `kind` goes by."""
        return self.links.get(kind, self._link)

    def go_out(
        self, call: int, out: list[tuple[Target, Envelope]], body: bytes, keyed: RecordKey | None, now: Now
    ) -> list[Action]:
        """Each to its recipient; `call` ends with the verdicts, and `keyed` stands for all of them."""
        actions: list[Action] = []
        rows: dict[Key, SentRow] = {}
        alone = len(out) == 1
        for target, envelope in out:
            header = encode_envelope(envelope)
            row = sent_row(envelope, header, body, target.gid, target.host)
            if target.host == self._me.host:
                row, more = self.to_neighbour(row, envelope, header, body, now)
            else:
                row, more = self.to_broker(row, envelope, body, keyed if alone else None, now)
                if keyed and not alone and row.state is SentState.ACCEPTED:
                    more = [RecordSent(row), *more]  # the key and all that it stands for in one transaction
            rows[row.key] = row
            actions += more
        if keyed:
            self._keys.remember(keyed, rows)
            if not any(isinstance(action, Publish) and action.keyed for action in actions):
                actions.insert(0, keyed)
        latest = {key: self._outbox.get(key) or row for key, row in rows.items()}
        self._waits.add_send(SendCall(call, latest))
        return actions

    def to_broker(
        self, row: SentRow, envelope: Envelope, body: bytes, keyed: RecordKey | None, now: Now
    ) -> tuple[SentRow, list[Action]]:
        """Hand it to the broker that its kind goes by, or record that there is no way to it."""
        link = self.link_of(row.kind)
        if why := link.why_not():
            return _failed(row, why[0], now, why[1])
        self._outbox.accept(row, now)
        self._guard.went_out(row, body, now)
        publish = link.publish_sent((row,), envelope, body, keyed)
        return row, [publish]

    def to_neighbour(
        self, row: SentRow, envelope: Envelope, header: bytes, body: bytes, now: Now
    ) -> tuple[SentRow, list[Action]]:
        """Through the bus, as if it had arrived; or record that it is not taken."""
        if self._inbox.ledger.is_full(row.gid):
            return _failed(row, "inbox-full", now)
        if self._roster.entities[row.gid].status == "stopping":
            return _failed(row, "recipient-gone", now)
        confirmed = msgspec.structs.replace(row, state=SentState.CONFIRMED)
        self._outbox.accept(confirmed, now)
        arrived = self._inbox.intake.arrive(VerifiedEnvelope.of_neighbour(envelope, header, body), row.gid, now)
        return confirmed, [RecordSent(confirmed), *arrived]


def _failed(row: SentRow, reason: str, now: Now, detail: str = "") -> tuple[SentRow, list[Action]]:
    """It does not even go out."""
    changes = {"reason": reason, "detail": detail, "said_by": "own", "at": now.wall}
    failed = msgspec.structs.replace(row, state=SentState.FAILED, **changes)
    return failed, [RecordSent(failed)]
