"""The red button: `pause` holds what would land, `resume` lets it go on; PAUSE does both at another host.

    waiting ──pause: an agent, a host, a trace, all──► waiting(paused) ──resume──► waiting
                                                          └── expires, is called back: as any message

Rules:
1. Nothing that is paused lands; all of it is still taken in and recorded. What was handed out before stays there.
2. A pause of an agent holds what comes for it and what it said; of this host, or `all`, everything here; of another
   host, what comes from there; of a trace, what belongs to it.
3. Pauses are kept, and outlive restarts. Only a person resumes, and only a person pauses a host or all. The grant that
   PAUSE needs was judged when it was verified.
4. To resume is also to let go what the loop guard holds of the same target. `all` ends every pause.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from fleettrio.core.actions import Action, Note, RecordSetting
from fleettrio.core.compose import Identity
from fleettrio.core.controls import Controls
from fleettrio.core.gate import Hold
from fleettrio.core.guard import Guard
from fleettrio.core.inbox import Inbox
from fleettrio.core.orders import Order, Orders
from fleettrio.core.orderwords import ALL
from fleettrio.core.refusals import Refused
from fleettrio.core.requests import PauseAsked
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState
from fleettrio.core.rules import Rules
from fleettrio.ids import Gid, HostId, Now, WallMs
from fleettrio.wire.bodies import PauseBody
from fleettrio.wire.envelope import Kind
from fleettrio.wire.gids import is_gid, is_name, is_trace_id
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("ALL", "PAUSED", "SETTING", "Pause", "Pauses")

PAUSED = "paused"
SETTING = "paused"
"""Under which the store keeps them."""
MOST = 256


class Pause(msgspec.Struct, frozen=True):
    """`target` is a gid, a host, a trace id or `all`; `by` whom, for showing."""

    target: str
    by: str
    at: WallMs


class Pauses:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        inbox: Inbox,
        guard: Guard,
        controls: Controls,
        orders: Orders,
        kept: str,
    ) -> None:
        self._me = me
        self._roster = roster
        self._inbox = inbox
        self._guard = guard
        self._controls = controls
        self._orders = orders
        self._pauses = {target: Pause(target, by, WallMs(at)) for target, by, at in json.loads(kept or "[]")}
        controls.add(Kind.PAUSE, self._asked, lambda row, now: controls.finish(row, now, InboxState.DONE))
        self.rules: Rules = {PauseAsked: self._order}

    def __iter__(self) -> Iterator[Pause]:
        return iter(self._pauses.values())

    def of(self, row: InboxRow) -> Pause | None:
        """What holds this message; None when nothing does."""
        if not self._pauses:
            return None
        names = (ALL, self._me.host, row.gid, row.sender, row.from_host, row.trace_id)
        return next((pause for name in names if (pause := self._pauses.get(name))), None)

    def word(self, row: InboxRow) -> str:
        """Why it waits although its agent could take it, in one word; empty when it does not."""
        return PAUSED if self.of(row) else row.held

    def of_agent(self, gid: Gid) -> Pause | None:
        """What keeps everything from landing in an agent of this host."""
        return next((pause for name in (ALL, self._me.host, gid) if (pause := self._pauses.get(name))), None)

    def of_host(self) -> Pause | None:
        """What keeps everything from landing on this host."""
        return self._pauses.get(ALL) or self._pauses.get(self._me.host)

    # --- inside

    def judge(self, row: InboxRow, now: Now) -> Hold | None:
        pause = self.of(row)
        return Hold(f"paused by {pause.by}", passes=True) if pause else None

    def _order(self, event: PauseAsked, now: Now) -> list[Action]:
        """Of this host or of another one: a PAUSE like any other."""
        order = Order(
            kind=Kind.PAUSE,
            host=event.host,
            sender=self._roster.entities[event.sender],
            body=PauseBody(target=event.target, on=event.on).to_bytes(),
            msg_id=event.msg_id,
            trace_id=event.trace_id,
            is_live=False,
        )
        return self._orders.give(event.call, order, now)

    def _asked(self, message: VerifiedEnvelope, row: InboxRow, now: Now) -> list[Action]:
        body = PauseBody.from_bytes(message.body)
        is_agent, is_trace = is_gid(body.target), is_trace_id(body.target)
        if not (is_agent or is_trace or is_name(body.target) or body.target == ALL):
            raise Refused("malformed", f"{body.target!a} is not an agent, host or trace")
        if not self._guard.is_person(row.sender, row.from_host) and not (body.on and (is_agent or is_trace)):
            raise Refused("not-a-person", "only a person resumes, or pauses a host or everything")
        by = self._roster.address(row.sender, row.from_host)
        if self._guard.is_person(row.sender, row.from_host):
            by = f"human@{row.from_host}"
        if body.on:
            acted = self._pause(Pause(body.target, by, now.wall))
            detail = ""
        else:
            is_held = bool(self._held(body.target)) or self._is_paused(body.target)
            acted, count = self._resume(body.target, now)
            goes_on = "1 message goes on" if count == 1 else f"{count} messages go on"
            detail = goes_on if is_held else "nothing of it was paused or held"
        word = "pause" if body.on else "resume"
        note = Note(word, row.msg_id, row.gid, row.trace_id, row.from_host, body.target[:64], f"by {by}", alarm=True)
        return [note, *acted, *self._controls.finish(row, now, InboxState.DONE, detail=detail)]

    def _pause(self, pause: Pause) -> list[Action]:
        if pause.target not in self._pauses and len(self._pauses) >= MOST:
            raise Refused("too-many", f"{MOST} pauses are in force here already")
        self._pauses.setdefault(pause.target, pause)
        return [self._record()]

    def _resume(self, target: str, now: Now) -> tuple[list[Action], int]:
        held = self._held(target)
        if target == ALL:
            self._pauses.clear()
        self._pauses.pop(target, None)
        is_whole = not (is_gid(target) or is_trace_id(target))
        released = self._guard.resume(held, now, *(() if is_whole else (target,)))
        gids = dict.fromkeys(row.gid for row in held)
        free = [row for row in held if self.of(row) is None]
        return [self._record(), *released, *self._inbox.intake.let_go(gids, now)], len(free)

    def _is_paused(self, target: str) -> bool:
        return bool(self._pauses) if target == ALL else target in self._pauses

    def _held(self, target: str) -> list[InboxRow]:
        rows = [row for row in self._inbox.ledger.waiting() if self._matches(row, target)]
        return [row for row in rows if row.held or self.of(row)]

    def _matches(self, row: InboxRow, target: str) -> bool:
        if target in (ALL, self._me.host):
            return True
        return target in (row.gid, row.sender, HostId(row.from_host), row.trace_id)

    def _record(self) -> RecordSetting:
        return RecordSetting(SETTING, json.dumps([[p.target, p.by, p.at] for p in self._pauses.values()]))
