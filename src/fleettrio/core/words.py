"""Notices that come in: other hosts say what became of our messages.

Rules:
1. A notice counts only for a message in our outbox, with its very leaf, and only from the host that it went to; a
   FAILED also from a host that is granted `report` (the dead-letter reporter). Anything else is `not-party`: noted,
   rejected. A reporter that is the recipient's host, too, says of a death what any reporter says: no last word.
   NO_WAITER counts for a question of ours, TOO_LATE for an answer, each of that very turn.
2. Recorded first, acknowledged then; a repeated notice changes nothing.
3. `stale-epoch` about a beat of our own is for one thing only: the next epoch (`epochs`).
4. A word about a broadcast by a member that was not known when it went out counts, too: it gets a row then.
5. A refusal (`FAILED refused: <reason> at <host>`) also says that the host does not trust us, or that we are wrong:
   it is kept with the peer, so that a person is shown the command that mends it, until that host takes something of
   ours. A grant that is missing (`not-authorised`) is about one message, and not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fleettrio.core.actions import Ack, Action, Note, RecordPeer, Reject
from fleettrio.core.compose import Identity
from fleettrio.core.deadletters import DEATHS
from fleettrio.core.lookups import LookUps
from fleettrio.core.notices import NO_WAITER, TOO_LATE
from fleettrio.core.outbox import Outbox
from fleettrio.core.pings import Pings
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, Key, SentRow, SentState
from fleettrio.core.said import REFUSED, Word
from fleettrio.ids import Gid, HostId, Leaf, MsgId, Now, Tag, WallMs
from fleettrio.wire.bodies import Failed, Injected, Outcome, TurnNotice
from fleettrio.wire.envelope import Envelope, Kind
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("REPORT", "TRUST_REASONS", "Words", "party", "words_of")

REPORT = "report"
"""The grant of a reporter, and whose word its words are."""
TRUST_REASONS = ("unknown-host", "revoked", "key-generation", "wrong-fleet", "signature")
_REASON: dict[str, str] = {Kind.NO_WAITER: NO_WAITER, Kind.TOO_LATE: TOO_LATE}
_ABOUT = {NO_WAITER: Kind.ASK, TOO_LATE: Kind.ANSWER}


class Words:
    def __init__(
        self,
        me: Identity,
        outbox: Outbox,
        lookups: LookUps,
        pings: Pings,
        roster: Roster,
        grants: Callable[[HostId], frozenset[str]],
        stale_epoch: Callable[[HostId, str, Now], list[Action]],
    ) -> None:
        self._me = me
        self._grants = grants
        self._stale_epoch = stale_epoch
        self._outbox = outbox
        self._lookups = lookups
        self._pings = pings
        self._roster = roster
        self.absent: dict[str, Callable[[SentRow, Now], list[Action]]] = {}
        """Kinds that a broker may lose: what it means that their recipient's host has never seen one."""

    def arrive(self, tag: Tag, message: VerifiedEnvelope, now: Now) -> list[Action]:
        words = words_of(message)
        host = message.envelope.host
        grants = self._grants(host)
        refused = [_refusal(word) for word in words if word.reason.startswith(REFUSED)]
        if refused == ["stale-epoch"]:
            return [*self._stale_epoch(host, words[0].detail, now), Ack(tag)]
        pings = self._pings.refused(host, refused[0], now) if refused else []

        def then(_: Sequence[InboxRow | None], rows: Sequence[SentRow | None], now: Now) -> list[Action]:
            heads = {(w.msg_id, self._me.gid): None for w, row in zip(words, rows, strict=True) if row is None}
            if not heads:
                return judge(rows, {}, now)

            def with_heads(_: Sequence[InboxRow | None], found: Sequence[SentRow | None], now: Now) -> list[Action]:
                return judge(rows, dict(zip(heads, found, strict=True)), now)

            return self._lookups.look_up((), list(heads), with_heads, now)

        def judge(rows: Sequence[SentRow | None], heads: Mapping[Key, SentRow | None], now: Now) -> list[Action]:
            actions: list[Action] = []
            is_party = bool(pings)
            trace_id = message.envelope.trace_id
            for word, loaded in zip(words, rows, strict=True):
                row = self._outbox.get(word.key) or loaded or self._late(word, heads, host, now)
                # About coordination only the coordinator's vhost has a word (`coordination`).
                is_ours = row is not None and row.kind != Kind.COORD and _is_about(word, row)
                said_by = party(word, row, message.envelope, grants) if row and is_ours else ""
                if row is None or not said_by:
                    about = (word.msg_id, word.gid, trace_id, host)
                    actions.append(Note("not-party", *about, word.state[:64], word.reason))
                    continue
                is_party = True
                actions += self._apply(word, row, said_by, now)
            return [*actions, Ack(tag) if is_party else Reject(tag)]

        return [*pings, *self._lookups.look_up((), [w.key for w in words], then, now)]

    def _late(self, word: Word, heads: Mapping[Key, SentRow | None], host: HostId, now: Now) -> SentRow | None:
        """The new row of a member that was not known when the broadcast went out, and that the roster knows by now."""
        head = heads.get((word.msg_id, self._me.gid))
        member = self._roster.others.get(word.gid)
        if head is None or not head.is_head or head.leaf != word.leaf or member is None or member.host != host:
            return None
        row = msgspec.structs.replace(
            head, gid=word.gid, to_host=host, state=SentState.CONFIRMED, reason="", detail="", said_by="", late=True
        )
        self._outbox.accept(row, now)
        return row

    def _apply(self, word: Word, row: SentRow, said_by: str, now: Now) -> list[Action]:
        actions: list[Action] = []
        host = row.to_host
        if said_by == REPORT:
            pass  # it says nothing about the recipient's host
        elif word.reason.startswith(REFUSED):
            reason = _refusal(word)
            if reason in TRUST_REASONS:
                actions.append(RecordPeer(self._roster.note_refusal(host, by_them=reason)))
        else:
            actions += self._pings.taken_by(host)
        if word.state == "absent" and (absent := self.absent.get(row.kind)):
            actions += absent(row, now)
            row = self._outbox.get(row.key) or row
        return [
            *actions,
            *self._outbox.word(row, word, said_by, now),
        ]


def party(word: Word, row: SentRow, notice: Envelope, grants: frozenset[str]) -> str:
    """As what the host of `notice`, with these grants, may say `word` of `row`; empty when it may not."""
    may_report = notice.kind == Kind.FAILED and REPORT in grants
    if row.to_host == notice.host and not (may_report and word.reason in DEATHS):
        return "peer"
    return REPORT if may_report else ""


def _is_about(word: Word, row: SentRow) -> bool:
    if word.turn_id:
        return (row.turn_id, row.kind) == (word.turn_id, _ABOUT[word.reason])
    return row.leaf == word.leaf


def _refusal(word: Word) -> str:
    return word.reason.removeprefix(REFUSED).partition(" at ")[0]


def words_of(message: VerifiedEnvelope) -> list[Word]:
    """The notice's words; raises `MalformedEnvelope` for a body that is not one."""
    re, body = message.envelope.re or MsgId(""), message.body
    match message.envelope.kind:
        case Kind.INJECTED:
            told = Injected.from_bytes(body)
            state = "injected" if told.state == "confirmed" else "unconfirmed"
            return [Word(re, Gid(told.gid), Leaf(told.leaf), state, "", "", told.via, WallMs(told.at), told.stale)]
        case Kind.FAILED:
            failed = Failed.from_bytes(body)
            reason, at = failed.reason, WallMs(failed.at)
            state = "expired" if reason.removeprefix(REFUSED).partition(" at ")[0] == "expired" else "failed"
            return [Word(re, Gid(failed.gid), Leaf(failed.leaf), state, reason, failed.detail, "", at)]
        case Kind.NO_WAITER | Kind.TOO_LATE as kind:
            said = TurnNotice.from_bytes(body)
            at, turn_id = WallMs(said.at), message.envelope.turn_id or ""
            return [Word(re, Gid(said.gid), Leaf(b""), "failed", _REASON[kind], said.reason, "", at, turn_id=turn_id)]
        case _:
            told_once = {(f.msg_id, f.gid): f for f in reversed(Outcome.from_bytes(body).fates)}
            return [
                Word(f.msg_id, f.gid, f.leaf, f.state, f.reason, f.detail, f.via, f.at, f.stale)
                for f in reversed(told_once.values())
            ]
