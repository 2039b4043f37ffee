"""The daemon's own timers that outlive it: messages to be sent later, and reminders of what was not answered.

    (nothing) ──send --after──► due later ──its time──► sent, as if it were asked for now
                                   └──cancel──► (nothing)
    sent ──send --remind──► due later ──its time──► answered, failed: nothing; else one line to the sender

Rules:
1. A message to be sent later is made when its time has come: from then it expires, and what it meets then decides. Its
   id, its trace and its depth are those of the turn in which it was asked for.
2. Each is done once: it leaves the store together with what it comes to. One whose time passed while no daemon ran is
   done at the start; a message for another host then waits for the first session, at most 10 s.
3. What cannot be sent when its time has come is told to its sender, like a reminder: one line from this host's gateway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fleettrio.core.actions import Action, DropDue, Fail, Publish, RecordDue, RecordSent, Resolve
from fleettrio.core.calls import NO_ANSWER_COMES, NOBODY
from fleettrio.core.compose import Identity, message
from fleettrio.core.depth import Step
from fleettrio.core.entity import Entity
from fleettrio.core.inbox import Inbox
from fleettrio.core.link import Link
from fleettrio.core.lookups import LookUps
from fleettrio.core.requests import DueCancelled, LaterAsked, SendAsked
from fleettrio.core.roster import Roster, Target
from fleettrio.core.rows import Due, InboxRow, SentRow
from fleettrio.core.rules import Rules, TimerRules
from fleettrio.core.sends import Sends
from fleettrio.core.timers import Timers, at_wall
from fleettrio.errors import FAILED, MalformedEnvelope
from fleettrio.ids import Gid, MsgId, Now, Seconds, TraceId, WallMs, short_id
from fleettrio.wire.envelope import Kind, default_lifetime_ms, encode_envelope
from fleettrio.wire.gids import GATEWAY_SALT, new_msg_id
from fleettrio.wire.plain import dump_plain, load_plain
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("REMIND", "SEND", "Dues")

SEND, REMIND = "send", "remind"
MOST = 1_000
MOST_BYTES = 2 * 1024 * 1024
UNDO_RETRY_S = 5.0
FIRST_SESSION_S = 10.0
_KEPT = ("when", "intent", "priority", "expires_in_ms", "wants_reply", "live", "supersedes", "on_stale", "claim")


class Dues:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        sends: Sends,
        link: Link,
        inbox: Inbox,
        lookups: LookUps,
        timers: Timers,
        kept: Iterable[Due],
    ) -> None:
        self._me = me
        self._roster = roster
        self._sends = sends
        self._link = link
        self._first_session_by = Seconds(0.0)
        self._inbox = inbox
        self._lookups = lookups
        self._timers = timers
        self._rows = {row.id: row for row in kept}
        self.rules: Rules = {SendAsked: self.send, LaterAsked: self._later, DueCancelled: self._cancelled}
        self.timer_rules: TimerRules = {"due": self._due}

    def __iter__(self) -> Iterator[Due]:
        return iter(self._rows.values())

    @staticmethod
    def recipients(row: Due) -> list[tuple[MsgId, str]]:
        """To whom a message that is due later goes, each with the id of its own."""
        try:
            request = load_plain(row.request, what="what is due", limit=MOST_BYTES, depth=4)
        except MalformedEnvelope:
            return []
        return [(MsgId(msg_id), str(to)) for msg_id, to in zip(request["ids"], request["to"], strict=True)]

    def start(self, now: Now) -> list[Action]:
        self._first_session_by = Seconds(now.mono + FIRST_SESSION_S)
        return self.session_opened(now)

    def session_opened(self, now: Now) -> list[Action]:
        """What waited for it is due."""
        for row in self._rows.values():
            self._arm(row, now)
        return []

    def send(self, event: SendAsked, now: Now) -> list[Action]:
        """A send, with its reminder when one is wanted."""
        actions = self._sends.send(event, now)
        if event.remind_ms is None or event.known:
            return actions
        if any(isinstance(action, Fail) and action.call == event.call for action in actions):
            return actions
        targets = [self._roster.resolve(address) for address in event.to]
        keys = [
            [msg_id, target.gid]
            for msg_id, target in zip(event.msg_ids, targets, strict=True)
            if isinstance(target, Target)
        ]
        step = event.step or self._sends.step(self._roster.entities[event.sender])
        request = {"keys": keys, "depth": step.depth, "trace": step.trace_id or event.trace_id}
        return [*actions, *self._record(event.sender, REMIND, event.msg_ids[0], event.remind_ms, request, now)]

    def undo_record(self, action: RecordDue, _: Now) -> None:
        self._rows.pop(action.row.id, None)
        self._timers.cancel(("due", action.row.id))

    def undo_drop(self, action: DropDue, now: Now) -> None:
        if action.row.what not in (SEND, REMIND):
            return
        self._rows[action.row.id] = action.row
        self._timers.set(("due", action.row.id), Seconds(now.mono + UNDO_RETRY_S))

    # --- inside

    def _later(self, event: LaterAsked, now: Now) -> list[Action]:
        send = event.send
        found = self._sends.recipients.of(send)
        refused = found if isinstance(found, Fail) else None
        if refused is None and len(self._rows) >= MOST:
            text = f"{MOST} messages and reminders are due later on this host already"
            refused = Fail(send.call, FAILED, "too-many", text, "fleettrio cancel ID")
        if refused is not None:
            return [refused]
        step = self._sends.step(self._roster.entities[send.sender])
        request: dict[str, Any] = {
            "to": list(send.to),
            "body": send.body,
            "ids": list(send.msg_ids),
            "trace": step.trace_id or send.trace_id,
            "depth": step.depth,
            **{name: value for name in _KEPT if (value := getattr(send, name)) is not None},
        }
        if send.remind_ms is not None:
            request["remind_ms"] = send.remind_ms
        recorded = self._record(send.sender, SEND, send.msg_ids[0], event.after_ms, request, now)
        return [*recorded, Resolve(send.call, self._rows[send.msg_ids[0]])]

    def _cancelled(self, event: DueCancelled, now: Now) -> list[Action]:
        row = self._rows.get(event.id)
        return [*(self._drop(row) if row else []), Resolve(event.call, row)]

    def _record(
        self, sender: Gid, what: str, due_id: MsgId, after_ms: int, request: dict[str, Any], now: Now
    ) -> list[Action]:
        row = Due(
            id=due_id, what=what, at=WallMs(now.wall + after_ms), sender=sender, made_at=now.wall,
            request=dump_plain(request),
        )  # fmt: skip
        self._rows[row.id] = row
        self._arm(row, now)
        return [RecordDue(row)]

    def _drop(self, row: Due) -> list[Action]:
        del self._rows[row.id]
        self._timers.cancel(("due", row.id))
        return [DropDue(row)]

    def _arm(self, row: Due, now: Now) -> None:
        self._timers.set(("due", row.id), at_wall(row.at, now))

    def _due(self, name: tuple[str, ...], now: Now) -> list[Action]:
        row = self._rows.get(MsgId(name[0]))
        if row is None:
            return []
        if now.wall < row.at:  # the wall clock was turned back meanwhile
            self._arm(row, now)
            return []
        if self._waits_for_session(row, now):
            self._timers.set(("due", row.id), self._first_session_by)
            return []
        dropped = self._drop(row)
        if row.sender not in self._roster.entities:
            return dropped
        try:
            request = load_plain(row.request, what="what is due", limit=MOST_BYTES, depth=4)
        except MalformedEnvelope:
            return dropped
        return [*dropped, *(self._send_now if row.what == SEND else self._remind)(row, request, now)]

    def _waits_for_session(self, row: Due, now: Now) -> bool:
        """Whether the broker is still to be reached for the first time since the start, and is needed."""
        if row.what != SEND or self._link.is_standalone or self._link.opened_at is not None:
            return False
        targets = (self._roster.resolve(to) for _, to in self.recipients(row))
        is_remote = any(isinstance(target, Target) and target.host != self._me.host for target in targets)
        return is_remote and now.mono < self._first_session_by

    def _send_now(self, row: Due, request: dict[str, Any], now: Now) -> list[Action]:
        event = SendAsked(
            call=NOBODY,
            sender=row.sender,
            to=tuple(request["to"]),
            body=request["body"],
            msg_ids=tuple(request["ids"]),
            trace_id=TraceId(request["trace"]),
            step=Step(request["depth"], TraceId(request["trace"])),
            remind_ms=request.get("remind_ms"),
            **{name: request[name] for name in _KEPT if name in request},
        )
        actions: list[Action] = []
        for action in self.send(event, now):
            if isinstance(action, Publish):  # recorded together with what is not due any more
                actions += [*(RecordSent(sent) for sent in action.sent), action]
            elif isinstance(action, Fail) and action.call == NOBODY:
                text = f"{short_id(row.id)} could not be sent at its time: {action.message}"
                actions += self._line(row, text, event.step or Step(1), now)
            else:
                actions.append(action)
        return actions

    def _remind(self, row: Due, request: dict[str, Any], now: Now) -> list[Action]:
        keys = [(MsgId(msg_id), Gid(gid)) for msg_id, gid in request["keys"]]
        step = Step(request["depth"], TraceId(request["trace"]))

        def then(_: Sequence[InboxRow | None], sent: Sequence[SentRow | None], now: Now) -> list[Action]:
            late = [r for r in sent if r and not r.answered_by and r.state not in NO_ANSWER_COMES]
            if not late:
                return []
            who = ", ".join(self._roster.address(r.gid, r.to_host) for r in late)
            minutes = round((now.wall - row.made_at) / 60_000)
            text = f"no answer to {short_id(row.id)} from {who} after {minutes} min"
            return self._line(row, f"{text}; `fleettrio show {short_id(row.id)}` tells where it is", step, now)

        return self._lookups.look_up((), keys, then, now)

    def _line(self, row: Due, text: str, step: Step, now: Now) -> list[Action]:
        """One line to the sender, from this host's gateway."""
        if row.sender not in self._roster.entities:
            return []
        gateway = Entity(gid=self._me.gid, name="gateway", salt=GATEWAY_SALT)
        seed = hashlib.blake2b(f"{row.what} {row.id}".encode(), digest_size=10).digest()
        envelope = message(
            self._me,
            Kind.SEND,
            gateway,
            row.sender,
            msg_id=new_msg_id(now.wall, seed),
            trace_id=step.trace_id or TraceId(row.id.replace("-", "")),
            expires_in_ms=default_lifetime_ms(Kind.SEND),
            now=now,
            depth=step.depth,
            intent="warning",
            wants_reply=False,
        )
        body = text.encode()
        header = encode_envelope(envelope)
        return self._inbox.intake.arrive(VerifiedEnvelope.of_neighbour(envelope, header, body), row.sender, now)
