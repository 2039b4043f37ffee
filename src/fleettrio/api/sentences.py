"""Where a message is, why, and what to do: one sentence for every state, at the sender's and at the recipient's host.

What a reason means stands in `reasons`; here is how state, reason and what is known of the agent become a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fleettrio.api.moments import ago, clock, dated, means
from fleettrio.api.reasons import ENDED, FAILED, HELD, NO_WAITER, UNCONFIRMED, UNKNOWN, reason_text
from fleettrio.api.refused import why_refused
from fleettrio.core.claims import split_key
from fleettrio.core.gateway import Gateway
from fleettrio.core.pauses import ALL
from fleettrio.core.recalled import RECALL_LIMIT
from fleettrio.core.rows import ANSWERED, AUTO, CALL, InboxRow, InboxState, SentRow, SentState
from fleettrio.core.rows import ENDED as ENDED_TURN
from fleettrio.core.said import REFUSED, WAITING_STATES
from fleettrio.ids import Gid, HostId, WallMs, short_id
from fleettrio.wire.envelope import Kind, decode_envelope
from fleettrio.wire.gids import is_trace_id
from fleettrio.wire.signing import SKEW_MS

__all__ = ("inbox_sentence", "paused_words", "sent_sentence")

# --- at the sender


def sent_sentence(row: SentRow, recipient: str, gateway: Gateway, now: WallMs) -> str:
    if row.answered_by:
        return f"{recipient} answered it" + (" with the last words of its turn" if row.answer == AUTO else "")
    if sentence := _own_words(row, recipient, gateway):
        return sentence
    match row.state:
        case SentState.ACCEPTED | SentState.WRITTEN:
            promised = f"goes out when {recipient} is ready, if this daemon still runs then"
            return promised if row.is_promised else "on its way to the broker"
        case SentState.OUTCOME_UNKNOWN:
            why = _reason(UNKNOWN, row, recipient) or "the broker did not confirm it"
            return f"unknown: it was written, but {why}; {row.to_host} is asked as soon as it is heard"
        case SentState.CONFIRMED:
            return _waiting(row, recipient, gateway, now)
        case SentState.UNKNOWN:
            return f"unknown: {_reason(UNKNOWN, row, recipient)}; {row.to_host} is asked again when it is heard"
        case SentState.HELD:
            return _held(row, recipient, gateway, now)
        case SentState.INJECTED:
            return _at_work(row, recipient, gateway, now)
        case SentState.UNCONFIRMED:
            why = _reason(UNCONFIRMED, row, recipient)
            return f"unconfirmed: it may have reached {recipient}, nobody saw it ({why}); not repeated"
        case SentState.DRAINED:
            return f"{recipient} took it at {clock(row.at)}"
        case SentState.FAILED:
            return _failed(row, recipient, gateway)
        case _:
            return _ended(row, recipient)


def _live_sentence(row: SentRow, recipient: str) -> str:
    """What became of a question, or of an answer; empty where it is as with any message."""
    is_question = row.kind == Kind.ASK
    match row.state:
        case SentState.CONFIRMED | SentState.HELD if is_question:
            return f"asked at {clock(row.ts)}: {recipient} has not answered yet"
        case SentState.EXPIRED if is_question:
            return f"expired: {recipient} did not answer in time"
        case SentState.FAILED if row.reason in ("no-waiter", "too-late") and row.detail in NO_WAITER:
            return f"failed: {NO_WAITER[row.detail].format(who=recipient, host=row.to_host)}"
        case SentState.DRAINED if not is_question:
            return f"{recipient} has the answer"
        case SentState.FAILED if is_question and row.reason == "abandoned":
            return "taken back: whoever asked waits no longer" + (f" ({row.detail})" if row.detail else "")
    return ""


def _at_work(row: SentRow, recipient: str, gateway: Gateway, now: WallMs) -> str:
    """It was put in: does its agent still work on it?"""
    if row.answer == ENDED_TURN:
        return f"{recipient} ended its turn without answering ({row.detail}); a later answer still comes"
    here = gateway.roster.entities.get(row.gid)
    agent = here or gateway.roster.others.get(row.gid)
    if row.wants_reply and agent and agent.status == "working":
        return f"{recipient} works on it ({ago(max(agent.since, row.at), now)})"
    return _put_in(row, recipient)


def _order_sentence(row: SentRow, _recipient: str) -> str:
    """What became of an agent that was to be started or ended; empty where it is as with any message."""
    match row.state:
        case SentState.CONFIRMED:
            return f"{row.to_host} is {'starting' if row.kind == Kind.SPAWN else 'ending'} it"
        case SentState.READY:
            return f"ready since {clock(row.at)}: it takes messages as {row.detail}@{row.to_host}"
        case SentState.DONE:
            return f"ended at {clock(row.at)}" + (f"; {row.detail}" if row.detail else "")
        case SentState.FAILED if row.reason == "recipient-gone":
            return f"failed: {row.detail or 'it is gone already'}"
    return ""


def _lead_sentence(row: SentRow, recipient: str) -> str:
    """What became of coordination. Its host is never asked: it tells, and the same bytes again do no harm."""
    again = f"the same again is safe: fleettrio send --retry {short_id(row.msg_id)}"
    match row.state:
        case SentState.CONFIRMED:
            return f"waits for {recipient}, at the coordinator's broker or at {row.to_host}"
        case SentState.OUTCOME_UNKNOWN:
            why = _reason(UNKNOWN, row, recipient) or "the broker did not confirm it"
            return f"unknown: it was written, but {why}; {row.to_host} tells if it has it, and {again}"
        case SentState.UNKNOWN:
            return f"unknown: {_reason(UNKNOWN, row, recipient)}, and its time is over"
    return ""


_OWN_WORDS: Mapping[str, Callable[[SentRow, str], str]] = {
    **dict.fromkeys((Kind.ASK, Kind.ANSWER), _live_sentence),
    **dict.fromkeys((Kind.SPAWN, Kind.STOP), _order_sentence),
    Kind.COORD: _lead_sentence,
}
"""Kinds that have words of their own for some of their states."""


def _own_words(row: SentRow, recipient: str, gateway: Gateway) -> str:
    """What is said of some alone; empty where it is as with any message."""
    if row.state in WAITING_STATES and gateway.outbox.view_note(row.key) == RECALL_LIMIT:
        why = f"{row.to_host} has not got it, and keeps no more of what this host calls back for now"
        return f"called back, but {why}: it is delivered if it comes first; it is called back again by itself"
    own = _OWN_WORDS.get(row.kind)
    return own(row, recipient) if own else ""


def _held(row: SentRow, recipient: str, gateway: Gateway, now: WallMs) -> str:
    if (here := gateway.ledger.get(row.key)) and here.state is InboxState.WAITING:
        return inbox_sentence(here, recipient, gateway, now)
    why = _reason(HELD, row, recipient) if row.reason else _undecided_there(row, gateway, now)
    return f"held at {row.to_host}: {why or f'{recipient} has not taken it yet'}"


def _waiting(row: SentRow, recipient: str, gateway: Gateway, now: WallMs) -> str:
    if row.to_host == gateway.settings.me.host:
        here = gateway.ledger.get(row.key)
        return inbox_sentence(here, recipient, gateway, now) if here else f"waits for {recipient}"
    if gateway.roster.is_silent(row.to_host, now):
        peer = gateway.roster.peers.get(row.to_host)
        how = "left" if peer and peer.has_left else "silent since"
        silent = f"{how} {dated(peer.heard_at, now)}" if peer and peer.heard_at else "never heard"
        if peer and abs(peer.offset_ms) > SKEW_MS:
            ahead = "ahead of" if peer.offset_ms > 0 else "behind"
            silent += f": its clock is {abs(peer.offset_ms) / 1000:.0f} s {ahead} ours"
        return f"waits ({row.to_host} {silent}, expires {dated(row.expires_at, now)})"
    note = gateway.outbox.view_note(row.key)
    if note == "absent":
        return f"waits: {row.to_host} has not got it; it lies at the broker still, or is lost (you are told at its end)"
    if note in HELD:
        held = reason_text(HELD, note, "", who=recipient, host=row.to_host, short=short_id(row.msg_id))
        return f"waits at {row.to_host} for {recipient}: {held}"
    if why := _undecided_there(row, gateway, now):
        return f"waits at {row.to_host} for {recipient}: {why}"
    other = gateway.roster.others.get(row.gid)
    busy = f"{recipient} is {other.status}, {ago(other.since, now)}" if other and other.status in _BUSY else ""
    return f"waits at {row.to_host} for {recipient}" + (f": {busy}" if busy else f" ({note} there)" if note else "")


_BUSY = ("working", "blocked", "away", "stopping")


def _failed(row: SentRow, recipient: str, gateway: Gateway) -> str:
    if not row.reason.startswith(REFUSED):
        if row.reason == "claimed-by":
            return f"not delivered to {recipient}: {row.detail} has its claim"
        if row.reason == "stale-dropped":
            return f"dropped at {row.to_host}, as you asked for when the code has moved: {row.detail}"
        return f"failed: {_reason(FAILED, row, recipient)}"
    return f"{row.to_host} refused it: {why_refused(row, recipient, gateway)}"


# --- at the recipient


def inbox_sentence(row: InboxRow, name: str, gateway: Gateway, now: WallMs) -> str:
    if row.kind in (Kind.ASK, Kind.ANSWER) and (sentence := _live_here(row, name)):
        return sentence
    match row.state:
        case InboxState.WAITING:
            return _waits_here(row, name, gateway, now)
        case InboxState.INJECTING:
            return f"is being put into {name}"
        case InboxState.OFFERED:
            return f"offered to {name}, not confirmed yet"
        case InboxState.INJECTED if row.answer:
            said = {ANSWERED: "answered", AUTO: "answered with the last words of its turn"}
            return f"{_put_in(row, name)}; {said.get(row.answer, f'not answered: {row.detail}')}"
        case InboxState.INJECTED:
            return _put_in(row, name)
        case InboxState.DRAINED:
            return f"{name} took it at {clock(row.at)}"
        case InboxState.UNCONFIRMED:
            why = _reason(UNCONFIRMED, row, name)
            return f"unconfirmed: it may have reached {name} ({why}); never repeated by itself"
        case InboxState.FAILED if row.reason:
            return f"failed: {_reason(FAILED, row, name)}"
        case _:
            return _ended(row, name)


def _live_here(row: InboxRow, name: str) -> str:
    """A question to, or an answer for, an entity here; empty where it is as with any message."""
    is_question, is_open = row.kind == Kind.ASK, row.state in (InboxState.WAITING, InboxState.OFFERED)
    match row.state:
        case _ if is_question and is_open:
            until = clock(row.expires_at)
            return f"a question, open until {until}; {name} answers it: fleettrio answer {short_id(row.msg_id)} 'TEXT'"
        case InboxState.DRAINED if is_question:
            return f"{name} answered it at {clock(row.at)}"
        case InboxState.RECALLED if is_question:
            return f"taken back at {clock(row.at)}: whoever asked waits no longer"
        case InboxState.EXPIRED if is_question:
            return f"expired: {name} did not answer in time"
        case InboxState.FAILED if row.reason == "no-waiter":
            return f"not shown: {name} did not listen when it came" + (f" ({row.detail})" if row.detail else "")
        case InboxState.WAITING if row.when == CALL:
            return f"an answer; it waits for the call in which {name} asked"
    return ""


def _waits_here(row: InboxRow, name: str, gateway: Gateway, now: WallMs) -> str:
    again = " (it was offered once already)" if row.repeat else ""
    if pause := gateway.pauses.of(row):
        _, target = paused_words(pause.target, gateway)
        paused = f"paused by {pause.by} at {dated(pause.at, now)}; `fleettrio resume {target}` lets it go on"
        return f"waits for {name}{again}: {paused}"
    if row.held:
        me, short = gateway.settings.me.host, short_id(row.msg_id)
        return f"waits for {name}{again}: {reason_text(HELD, row.held, row.detail, who=name, host=me, short=short)}"
    if why := _undecided(row.claim, row.from_host, gateway, now):
        return f"waits for {name}{again}: {why}"
    why, since = gateway.inbox.forward.why_waiting(row.gid)
    if why and since:
        return f"waits for {name}{again}: {why}, {ago(since, now)}"
    entity = gateway.roster.entities.get(row.gid)
    if entity and entity.takes == "pull" and not again:
        return f"waits for {name}, who fetches it: fleettrio inbox --take"
    return f"waits for {name}{again}"


# --- at both


def _put_in(row: SentRow | InboxRow, name: str) -> str:
    return f"put into {name} at {clock(row.at)}" + (f" by {means(row.via)}" if row.via else "")


def _undecided_there(row: SentRow, gateway: Gateway, now: WallMs) -> str:
    if b"claim" not in row.header:  # by far the most: nothing need be decoded to see it
        return ""
    return _undecided(decode_envelope(row.header).claim or "", gateway.settings.me.host, gateway, now)


def _undecided(claim: str, from_host: HostId, gateway: Gateway, now: WallMs) -> str:
    """Why nobody can say just now who has the claim of a message from `from_host`; empty where its arbiter is heard."""
    if not claim:
        return ""
    named, key = split_key(claim)
    arbiter = named or from_host
    if not gateway.roster.is_silent(arbiter, now):
        return ""
    return f"{arbiter} decides who has {key!r}, and {arbiter} is not heard"


def _ended(row: SentRow | InboxRow, name: str) -> str:
    if row.state in (SentState.SUPERSEDED, InboxState.SUPERSEDED) and row.detail:
        return f"superseded {row.detail}: it was not put into {name}"
    said = ENDED.get(str(row.state), "").format(who=name)
    why = f" ({row.reason}{': ' if row.reason and row.detail else ''}{row.detail})" if row.reason or row.detail else ""
    return f"{row.state}: {said}{why}" if said and said != str(row.state) else f"{row.state}{why}"


def _reason(table: Mapping[str, str], row: SentRow | InboxRow, name: str) -> str:
    host = row.to_host if isinstance(row, SentRow) else row.from_host
    return reason_text(table, row.reason, row.detail, who=name, host=host, short=short_id(row.msg_id))


def paused_words(target: str, gateway: Gateway) -> tuple[str, str]:
    """What a pause holds, and how `resume` is told."""
    roster, me = gateway.roster, gateway.settings.me.host
    if target == ALL:
        return "everything", "--all"
    if target == me:
        return "everything on this host", me
    if roster.knows(Gid(target)):
        address = roster.address(Gid(target), HostId(""))
        return address, address
    return ("a flow", target[-8:]) if is_trace_id(target) else (f"what comes from {target}", target)
