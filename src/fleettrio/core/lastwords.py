"""The last words of a turn, sent as the answer that its agent did not give.

Rules:
1. It is a REPLY like any, marked `auto`. But nobody would send it again, so this gateway does: its row `owes` until the
   broker has confirmed it, and the very same bytes go out in every session till then.
2. Its body lies in the store for as long as it is owed.
3. A neighbour has it at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fleettrio.core.actions import Action, DropBody, KeepBody, RecordSent
from fleettrio.core.calls import NO_VERDICT_YET
from fleettrio.core.compose import Identity, message, sent_row
from fleettrio.core.depth import Depths
from fleettrio.core.inbox import Inbox
from fleettrio.core.link import Link
from fleettrio.core.outbox import Outbox
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, Key, SentRow, SentState
from fleettrio.ids import MsgId, Now
from fleettrio.wire.envelope import Kind, decode_envelope, default_lifetime_ms, encode_envelope
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("WORDS", "LastWords")

WORDS = "words"
"""`SentRow.owes` of a message that goes out again until it is confirmed."""
_NOT_THERE_YET = NO_VERDICT_YET | {SentState.OUTCOME_UNKNOWN, SentState.UNKNOWN}


class LastWords:
    def __init__(
        self, me: Identity, roster: Roster, link: Link, outbox: Outbox, inbox: Inbox, depths: Depths, body_limit: int
    ) -> None:
        self._me = me
        self._roster = roster
        self._link = link
        self._outbox = outbox
        self._inbox = inbox
        self._depths = depths
        self._body_limit = body_limit
        self._owed: dict[Key, tuple[SentRow, bytes]] = {}

    def start(self, rows: Iterable[SentRow], bodies: Mapping[Key, bytes]) -> None:
        """What the last process owed."""
        for row in rows:
            key = row.key
            if row.owes == WORDS and key in bodies:
                self._owed[key] = (row, bodies[key])

    def say(self, brief: InboxRow, words: bytes, msg_id: MsgId, now: Now) -> list[Action]:
        """Answer `brief` with the last words of the turn that took it."""
        entity = self._roster.entities.get(brief.gid)
        is_here = brief.from_host == self._me.host
        if entity is None or (is_here and brief.sender not in self._roster.entities):
            return []
        body = words[: self._body_limit].decode("utf-8", "ignore").encode()
        envelope = message(
            self._me,
            Kind.REPLY,
            entity,
            brief.sender,
            msg_id=msg_id,
            trace_id=brief.trace_id,
            expires_in_ms=default_lifetime_ms(Kind.REPLY),
            now=now,
            re=brief.msg_id,
            depth=self._depths.answering(brief.gid, brief),
            auto=True,
        )
        header = encode_envelope(envelope)
        row = sent_row(envelope, header, body, brief.sender, brief.from_host)
        if is_here:
            row = msgspec.structs.replace(row, state=SentState.CONFIRMED)
            self._outbox.accept(row, now)
            arrived = self._inbox.intake.arrive(
                VerifiedEnvelope.of_neighbour(envelope, header, body), brief.sender, now
            )
            return [RecordSent(row), *arrived]
        row = msgspec.structs.replace(row, owes=WORDS)
        self._outbox.accept(row, now)
        self._owed[msg_id, brief.sender] = (row, body)
        return [RecordSent(row), KeepBody(msg_id, brief.sender, body), *self._publish(row, body)]

    def session_opened(self, now: Now) -> list[Action]:
        actions: list[Action] = []
        for key, (kept, body) in list(self._owed.items()):
            row = self._outbox.get(key) or kept
            is_unsent = row.state in _NOT_THERE_YET or (row.state is SentState.FAILED and row.said_by == "own")
            if row.expires_at <= now.wall or not is_unsent:
                actions += self._settle(key, now)
                continue
            again = msgspec.structs.replace(row, state=SentState.ACCEPTED, reason="", detail="", said_by="", owes=WORDS)
            self._outbox.accept(again, now)
            actions += self._publish(again, body)
        return actions

    def confirmed(self, keys: Iterable[Key], now: Now) -> list[Action]:
        """The broker has these messages."""
        if not self._owed:  # as a rule
            return []
        return [action for key in keys if key in self._owed for action in self._settle(key, now)]

    def _publish(self, row: SentRow, body: bytes) -> list[Action]:
        if not self._link.is_open:
            return []
        return [self._link.publish_sent((row,), decode_envelope(row.header), body)]

    def _settle(self, key: Key, now: Now) -> list[Action]:
        kept, _ = self._owed.pop(key)
        return [*self._outbox.paid(self._outbox.get(key) or kept, now), DropBody(*key)]
