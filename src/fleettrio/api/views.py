"""Rows as people and programs see them: a state, and one sentence that says where a message is, why, and what to do."""

from __future__ import annotations

import time

from fleettrio.api.schema import JournalLine, MessageView
from fleettrio.core.gateway import Gateway
from fleettrio.core.rows import InboxRow, InboxState, SentRow, SentState
from fleettrio.core.words import REFUSED, TRUST_REASONS
from fleettrio.ids import HostId, WallMs, short_id
from fleettrio.store.tables import JournalRow
from fleettrio.wire.fleetfile import Fleet

__all__ = ("REVOKED", "ago", "inbox_view", "is_revoked", "journal_line", "sent_view")

REVOKED = (
    "this host's key was revoked by the fleet's owner; to come back it needs a new host id in a new FLEETTRIO_HOME"
    " (`fleettrio init --host NEWID`), which the owner adds"
)
"""For a revoked host. An import mends nothing there, so nothing else may be advised."""

_EXIT: dict[str, int] = {
    SentState.FAILED: 3,
    SentState.SUPERSEDED: 3,
    SentState.RECALLED: 3,
    SentState.EXPIRED: 4,
    SentState.OUTCOME_UNKNOWN: 5,
    SentState.UNKNOWN: 5,
    SentState.UNCONFIRMED: 5,
}
_NO_BROKER = ("broker-unreachable", "broker-blocked", "host-silent")


def is_revoked(fleet: Fleet, host: HostId) -> bool:
    """True when our own fleet file revokes every key of `host`."""
    gone = {gen for name, gen in fleet.revoked if name == host}
    entry = fleet.hosts.get(host)
    return bool(gone) and (entry is None or all(key.gen in gone for key in entry.keys))


def sent_view(row: SentRow, gateway: Gateway, now: WallMs) -> MessageView:
    """A message that an entity of this host sent."""
    recipient = gateway.roster.address(row.gid, row.to_host)
    sentence = _sent_sentence(row, recipient, gateway, now)
    exit_code = _EXIT.get(row.state, 0)
    if row.state is SentState.FAILED and row.reason in _NO_BROKER:
        exit_code = 8
    return MessageView(
        msg_id=row.msg_id,
        short=short_id(row.msg_id),
        kind=row.kind,
        direction="out",
        sender=gateway.roster.address(row.sender, gateway.settings.me.host),
        recipient=recipient,
        gid=row.gid,
        state="waiting" if row.state is SentState.CONFIRMED else "answered" if row.answered_by else str(row.state),
        reason=row.reason,
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
    )


def inbox_view(row: InboxRow, gateway: Gateway, now: WallMs, preview: str = "") -> MessageView:
    """A message that came to an entity of this host."""
    name = gateway.roster.address(row.gid, gateway.settings.me.host)
    return MessageView(
        msg_id=row.msg_id,
        short=short_id(row.msg_id),
        kind=row.kind,
        direction="in",
        sender=gateway.roster.address(row.sender, row.from_host),
        recipient=name,
        gid=row.gid,
        state=str(row.state),
        reason=row.reason,
        detail=row.detail,
        sentence=_inbox_sentence(row, name, gateway, now),
        trace_id=row.trace_id,
        ts=row.ts,
        expires_at=row.expires_at,
        at=row.at,
        via=row.via,
        size=row.size,
        re=row.re,
        answered_by=None,
        exit_code=0,
        preview=preview,
    )


def journal_line(row: JournalRow, host: str) -> JournalLine:
    return JournalLine(
        at=row.at,
        what=row.what,
        msg_id=row.msg_id or "",
        gid=row.gid or "",
        trace_id=row.trace_id or "",
        peer=row.peer,
        reason=row.reason,
        detail=row.detail,
        host=host,
    )


def _clock(moment: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment / 1000))


def ago(moment: int, now: WallMs) -> str:
    """How long that is, in one unit."""
    seconds = max(0, now - moment) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def _sent_sentence(row: SentRow, recipient: str, gateway: Gateway, now: WallMs) -> str:  # noqa: C901 - a table
    if row.answered_by:
        return f"{recipient} answered it"
    match row.state:
        case SentState.ACCEPTED | SentState.WRITTEN:
            return "on its way to the broker"
        case SentState.OUTCOME_UNKNOWN:
            why = row.reason or "the broker did not confirm it"
            return f"unknown: it was written, but {why}; {row.to_host} is asked as soon as it is heard"
        case SentState.CONFIRMED:
            return _waiting(row, recipient, gateway, now)
        case SentState.UNKNOWN:
            return f"unknown: {row.reason}; {row.to_host} is asked again when it is heard"
        case SentState.HELD:
            return f"held at {row.to_host}: {recipient} has not taken it yet"
        case SentState.INJECTED:
            return f"put into {recipient} at {_clock(row.at)}" + (f" by {row.via}" if row.via else "")
        case SentState.UNCONFIRMED:
            why = row.detail or row.reason
            return f"unconfirmed ({row.reason}): it may have reached {recipient}, nobody saw it ({why}); not repeated"
        case SentState.DRAINED:
            return f"{recipient} took it at {_clock(row.at)}"
        case SentState.EXPIRED:
            return f"expired: it was not, and will not be, delivered to {recipient}"
        case SentState.RECALLED:
            return f"recalled: it was not, and will not be, delivered to {recipient}"
        case SentState.SUPERSEDED:
            return "superseded by a later message of yours"
        case _:
            return _failed(row, recipient)


def _waiting(row: SentRow, recipient: str, gateway: Gateway, now: WallMs) -> str:
    if row.to_host == gateway.settings.me.host:
        why, since = gateway.inbox.forward.why_waiting(row.gid)
        return f"waits for {recipient}" + (f": {why}, {ago(since, now)}" if why and since else "")
    if gateway.roster.is_silent(row.to_host, now):
        peer = gateway.roster.peers.get(row.to_host)
        silent = f"silent since {_clock(peer.heard_at)}" if peer and peer.heard_at else "never heard"
        return f"waits ({row.to_host} {silent}, expires {_clock(row.expires_at)})"
    note = gateway.outbox.view_note((row.msg_id, row.gid))
    return f"waits at {row.to_host} for {recipient}" + (f" ({note} there)" if note else "")


def _failed(row: SentRow, recipient: str) -> str:
    if row.reason.startswith(REFUSED):
        reason = row.reason.removeprefix(REFUSED).partition(" at ")[0]
        sentence = f"{row.to_host} refused it: {reason}" + (f" ({row.detail})" if row.detail else "")
        return sentence + (f". {_mend(reason, row)}" if reason in TRUST_REASONS else "")
    match row.reason:
        case "unroutable":
            return f"failed: no inbox of {recipient} is on the broker; `fleettrio list` shows who is there"
        case "nacked":
            return f"failed: the inbox of {recipient} is full at the broker; try again later"
        case "recipient-gone":
            return f"failed: {recipient} is gone for good"
        case _:
            return f"failed: {row.reason}" + (f": {row.detail}" if row.detail else "")


def _mend(reason: str, row: SentRow) -> str:
    host = row.to_host
    match reason:
        case "unknown-host" | "key-generation":
            return f"On {host}: `fleettrio host import FILE` with your fleet file (`fleettrio host export`)"
        case "wrong-fleet":
            return f"The two hosts are of different fleets: compare `fleettrio host list` here and on {host}"
        case "revoked":
            return REVOKED[0].upper() + REVOKED[1:]
        case "not-authorised":
            return "The owner of the fleet grants it: `fleettrio host add LINE --grants …`"
        case _:
            return f"Compare the keys: `fleettrio host list` here and on {host}"


def _inbox_sentence(row: InboxRow, name: str, gateway: Gateway, now: WallMs) -> str:
    match row.state:
        case InboxState.WAITING:
            why, since = gateway.inbox.forward.why_waiting(row.gid)
            again = " (it was offered once already)" if row.repeat else ""
            return f"waits for {name}{again}" + (f": {why}, {ago(since, now)}" if why and since else "")
        case InboxState.INJECTING:
            return f"is being put into {name}"
        case InboxState.OFFERED:
            return f"offered to {name}, not confirmed yet"
        case InboxState.INJECTED:
            return f"put into {name} at {_clock(row.at)}" + (f" by {row.via}" if row.via else "")
        case InboxState.DRAINED:
            return f"{name} took it at {_clock(row.at)}"
        case InboxState.UNCONFIRMED:
            return f"unconfirmed ({row.reason}): it may have reached {name}; never repeated by itself"
        case _:
            return f"{row.state}" + (f": {row.reason}" if row.reason else "")
