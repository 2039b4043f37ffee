"""Notices that come in: other hosts say what became of our messages.

Rules:
1. A notice counts only for a message in our outbox, with its very leaf, and only from the host that it went to; a
   FAILED also from a host that is granted `report` (the dead-letter reporter). Anything else is `not-party`: noted,
   rejected.
2. Recorded first, acknowledged then; a repeated notice changes nothing.
3. A refusal (`FAILED refused: <reason> at <host>`) also says that the host does not trust us, or that we are wrong:
   it is kept with the peer, so that a person is shown the command that mends it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from fleettrio.core.actions import Ack, Action, Note, RecordPeer, Reject
from fleettrio.core.outbox import REFUSED, Outbox
from fleettrio.core.questions import Questions
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.ids import Gid, HostId, Leaf, MsgId, Now, Tag, WallMs
from fleettrio.wire.bodies import Failed, Injected, Outcome
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("REFUSED", "TRUST_REASONS", "Words")

REPORT = "report"
TRUST_REASONS = ("unknown-host", "revoked", "key-generation", "wrong-fleet", "signature", "not-authorised")


@dataclasses.dataclass(frozen=True, slots=True)
class _Word:
    msg_id: MsgId
    gid: Gid
    leaf: Leaf
    state: str
    reason: str
    detail: str
    via: str
    at: WallMs


class Words:
    def __init__(
        self, outbox: Outbox, questions: Questions, roster: Roster, grants: Callable[[HostId], frozenset[str]]
    ) -> None:
        self._grants = grants
        self._outbox = outbox
        self._questions = questions
        self._roster = roster

    def arrive(self, tag: Tag, message: VerifiedEnvelope, now: Now) -> list[Action]:
        words = _words_of(message)
        host = message.envelope.host
        may_report = message.envelope.kind == Kind.FAILED and REPORT in self._grants(host)
        refused = [_refusal(word) for word in words if word.reason.startswith(REFUSED)]
        pings = self._questions.ping_refused(host, refused[0], now) if refused else []

        def then(_: Sequence[InboxRow | None], rows: Sequence[SentRow | None], now: Now) -> list[Action]:
            actions: list[Action] = []
            is_party = bool(pings)
            for word, row in zip(words, rows, strict=True):
                said_by = _party(word, row, host, may_report)
                if row is None or not said_by:
                    state, reason = word.state[:64], word.reason
                    trace_id = message.envelope.trace_id
                    actions.append(Note("not-party", word.msg_id, word.gid, trace_id, host, state, reason))
                    continue
                is_party = True
                actions += self._apply(word, row, said_by, now)
            return [*actions, Ack(tag) if is_party else Reject(tag)]

        return [*pings, *self._questions.look_up((), [(w.msg_id, w.gid) for w in words], then, now)]

    def _apply(self, word: _Word, row: SentRow, said_by: str, now: Now) -> list[Action]:
        actions: list[Action] = []
        host = row.to_host
        if said_by == REPORT:
            pass  # it says nothing about the recipient's host
        elif word.reason.startswith(REFUSED):
            reason = _refusal(word)
            if reason in TRUST_REASONS:
                actions.append(RecordPeer(self._roster.note_refusal(host, by_them=reason)))
        elif (peer := self._roster.peers.get(host)) and peer.refuses_us:
            actions.append(RecordPeer(self._roster.note_refusal(host, by_them="")))
        return [
            *actions,
            *self._outbox.word(row, word.state, word.reason, word.detail, word.via, word.at, said_by, now),
        ]


def _party(word: _Word, row: SentRow | None, host: HostId, may_report: bool) -> str:
    """As what `host` may speak of this message; empty when it may not."""
    if row is None or row.leaf != word.leaf:
        return ""
    if row.to_host == host:
        return "peer"
    return REPORT if may_report else ""


def _refusal(word: _Word) -> str:
    return word.reason.removeprefix(REFUSED).partition(" at ")[0]


def _words_of(message: VerifiedEnvelope) -> list[_Word]:
    """The notice's words; raises `MalformedEnvelope` for a body that is not one."""
    re, body = message.envelope.re or MsgId(""), message.body
    match message.envelope.kind:
        case Kind.INJECTED:
            told = Injected.from_bytes(body)
            state = "injected" if told.state == "confirmed" else "unconfirmed"
            return [_Word(re, Gid(told.gid), Leaf(told.leaf), state, "", "", told.via, WallMs(told.at))]
        case Kind.FAILED:
            failed = Failed.from_bytes(body)
            reason, at = failed.reason, WallMs(failed.at)
            state = "expired" if reason.removeprefix(REFUSED).partition(" at ")[0] == "expired" else "failed"
            return [_Word(re, Gid(failed.gid), Leaf(failed.leaf), state, reason, failed.detail, "", at)]
        case _:
            told_once = {(f.msg_id, f.gid): f for f in reversed(Outcome.from_bytes(body).fates)}
            return [
                _Word(MsgId(f.msg_id), Gid(f.gid), Leaf(f.leaf), f.state, f.reason, f.detail, f.via, WallMs(f.at))
                for f in reversed(told_once.values())
            ]
