"""Rows as people and programs see them: a state, and one sentence that says where a message is, why, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from fleettrio.api.moments import dated
from fleettrio.api.schema import JournalLine, MessageView, SentWord
from fleettrio.api.sentences import inbox_sentence, sent_sentence
from fleettrio.api.tally import group_name, tally
from fleettrio.core.gateway import Gateway
from fleettrio.core.rows import AUTO, ENDED, InboxRow, InboxState, JournalRow, SentRow, SentState
from fleettrio.errors import EXPIRED, FAILED, NO_BROKER, UNKNOWN
from fleettrio.ids import HostId, WallMs, short_id
from fleettrio.local.sanitise import one_line
from fleettrio.wire.envelope import Kind
from fleettrio.wire.fleet import Fleet

__all__ = ("PREVIEW", "inbox_view", "is_revoked", "journal_line", "sent_view", "sent_word")

_EXIT: dict[str, int] = {
    SentState.FAILED: FAILED,
    SentState.SUPERSEDED: FAILED,
    SentState.RECALLED: FAILED,
    SentState.EXPIRED: EXPIRED,
    SentState.OUTCOME_UNKNOWN: UNKNOWN,
    SentState.UNKNOWN: UNKNOWN,
    SentState.UNCONFIRMED: UNKNOWN,
}
PREVIEW = 60
"""Characters of a body, or of what an order asks for."""
_NO_ANSWER = {ENDED: "no answer", AUTO: "auto"}
_NO_BROKER = ("broker-unreachable", "broker-blocked", "host-silent")


def is_revoked(fleet: Fleet, host: HostId) -> bool:
    """True when our own fleet file revokes every key of `host`."""
    gone = {gen for name, gen in fleet.revoked if name == host}
    entry = fleet.hosts.get(host)
    return bool(gone) and (entry is None or all(key.gen in gone for key in entry.keys))


def sent_view(row: SentRow, gateway: Gateway, now: WallMs, members: Sequence[SentRow] = ()) -> MessageView:
    """A message that an entity of this host sent. `members`: for the head of a broadcast, the rows it has beside it."""
    recipient = group_name(row.to) if row.is_head else gateway.coordination.correspondent(row)
    if row.kind == Kind.SPAWN and row.state is SentState.READY:
        recipient = f"{row.detail}@{row.to_host}"
    elif (row.gid, row.to_host) == (
        gateway.settings.me.gid,
        gateway.settings.me.host,
    ):  # an order to this host, named as it is to others
        recipient = row.to_host
    sentence = tally(row, members) if row.is_head else sent_sentence(row, recipient, gateway, now)
    state, exit_code = _standing(row)
    if row.is_head and members and row.state is not SentState.FAILED:
        exit_code = 0
    return MessageView(
        msg_id=row.msg_id,
        short=short_id(row.msg_id),
        kind=row.kind,
        direction="out",
        sender=gateway.roster.address(row.sender, gateway.settings.me.host),
        recipient=recipient,
        gid=row.gid,
        state=state,
        reason=_reason(row),
        detail=row.detail,
        sentence=sentence,
        trace_id=row.trace_id,
        ts=row.ts,
        expires_at=row.expires_at,
        at=row.at,
        via=row.via,
        size=0,
        re=row.re,
        answered_by=row.answered_by,
        exit_code=exit_code,
        stale=row.stale,
        host=gateway.settings.me.host,
        sender_gid=row.sender,
        to=row.to if row.kind == Kind.BROADCAST else "",
        is_head=row.is_head,
        late=row.late,
        preview=one_line(row.about, PREVIEW),
    )


def sent_word(row: SentRow) -> SentWord:
    """The same in the fewest words."""
    state, exit_code = _standing(row)
    return SentWord(row.msg_id, row.gid, state, _reason(row), row.detail, exit_code)


def _standing(row: SentRow) -> tuple[str, int]:
    """The state that is shown, and the exit code for it."""
    if row.answer == ENDED and not row.answered_by:
        return ENDED, FAILED
    state = "waiting" if row.state is SentState.CONFIRMED else "answered" if row.answered_by else str(row.state)
    is_cut_off = row.state is SentState.FAILED and row.reason in _NO_BROKER
    return state, NO_BROKER if is_cut_off else _EXIT.get(row.state, 0)


def _reason(row: SentRow) -> str:
    return row.reason or _NO_ANSWER.get(row.answer, "")


def inbox_view(row: InboxRow, gateway: Gateway, now: WallMs, preview: str = "") -> MessageView:
    """A message that came to an entity of this host."""
    name = gateway.roster.address(row.gid, gateway.settings.me.host)
    return MessageView(
        msg_id=row.msg_id,
        short=short_id(row.msg_id),
        kind=row.kind,
        direction="in",
        sender=gateway.coordination.correspondent(row),
        recipient=name,
        gid=row.gid,
        state=str(row.state),
        reason=row.reason or (gateway.pauses.word(row) if row.state is InboxState.WAITING else ""),
        detail=row.detail,
        sentence=inbox_sentence(row, name, gateway, now),
        trace_id=row.trace_id,
        ts=row.ts,
        expires_at=row.expires_at,
        at=row.at,
        via=row.via,
        size=row.size,
        re=row.re,
        answered_by=None,
        exit_code=0,
        stale=row.stale,
        host=gateway.settings.me.host,
        sender_gid=row.sender,
        preview=one_line(row.about, PREVIEW) or preview,
    )


def journal_line(row: JournalRow, host: str, who: str = "") -> JournalLine:
    return JournalLine(
        at=row.at,
        what=row.what,
        msg_id=row.msg_id or "",
        gid=row.gid or "",
        trace_id=row.trace_id or "",
        peer=row.peer,
        reason=row.reason,
        detail=_at_time(row) if row.what.startswith("due ") else row.detail,
        host=host,
        who=who,
        ms=row.ms,
    )


def _at_time(row: JournalRow) -> str:
    """When what is put off is due: the store has it in milliseconds."""
    at = row.detail.removeprefix("at ")
    return f"at {dated(int(at), row.at)}" if at.isdecimal() else row.detail
