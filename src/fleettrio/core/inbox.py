"""The recipient's side: from arrival to the one word that is told about a message.

Rules:
1. Recorded first, acknowledged then. From the commit on the store is the truth, and the broker has nothing to say.
2. Forward lane (push entities): `injecting` is committed right before the first byte. Whatever happens after that, the
   message is never typed again: a crash leaves `unconfirmed(crashed)`, never `failed`.
3. Reply lane (pull entities, and what a waiting call waits for): offered, confirmed by the client, then `drained`.
   Unconfirmed for 2 minutes, or its client gone, it waits again, marked "may be a repeat".
4. A final row answers every event and never changes.
5. Nothing is delivered after `expiresAt`, by this host's clock as it stands.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fleettrio.core.actions import Action, Commit, Inject, OpenInbox, PauseInbox, Record, Reserve, Resolve
from fleettrio.core.calls import Key, Offered, PullCall, WaitCall, WaitOver, Waits
from fleettrio.core.lane import Lane
from fleettrio.core.notices import Notices
from fleettrio.core.roster import Roster
from fleettrio.core.rows import Entity, InboxRow, InboxState
from fleettrio.core.timers import Timers, at_wall
from fleettrio.core.topology import InboxQueue
from fleettrio.ids import Gid, HostId, Leaf, MsgId, Now, Seconds, TraceId, WallMs
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("OFFER_LEASE_S", "Inbox", "Limits", "queue_owner")

OFFER_LEASE_S = 120.0
RETRY_FIRST_S, RETRY_MOST_S = 0.1, 2.0
RESUME_BELOW = 0.8


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one inbox; over them its broker queue is not consumed until it is under 80 %."""

    messages: int = 1_000
    bytes: int = 64 * 1024 * 1024


def queue_owner(entity: Entity) -> InboxQueue:
    """The broker queue of an entity: push entities take broadcasts by default."""
    return InboxQueue(entity.gid, entity.groups, broadcast=entity.takes == "push")


@dataclasses.dataclass(slots=True)
class _Offer:
    session: str
    keys: list[Key]


@dataclasses.dataclass(slots=True)
class _Agent:
    """The forward lane of one push entity: at most one message in hand."""

    in_hand: Key | None = None
    backoff_s: float = RETRY_FIRST_S
    why: str = ""
    since: WallMs = WallMs(0)


class Inbox:
    def __init__(self, roster: Roster, notices: Notices, waits: Waits, timers: Timers, limits: Limits, seq: int) -> None:
        self.rows: dict[Key, InboxRow] = {}
        self._lanes: dict[Gid, Lane] = {}
        self._agents: dict[Gid, _Agent] = {}
        self._offers: dict[int, _Offer] = {}
        self._offer_of: dict[Key, int] = {}
        self._ends_as: dict[Key, str] = {}
        """Offered rows that were called back or replaced meanwhile: they end `unconfirmed(offered)` with their lease."""
        self._full: set[Gid] = set()
        self._cursor = 0
        self._seq = seq
        self._roster = roster
        self._notices = notices
        self._waits = waits
        self._timers = timers
        self._limits = limits

    # --- start

    def start(self, rows: Iterable[InboxRow], now: Now) -> list[Action]:
        """Take over what the store holds: half-typed messages are never typed again, offers are made again."""
        actions: list[Action] = []
        for row in sorted(rows, key=lambda r: r.seq):
            if row.state is InboxState.INJECTING:
                actions += self._finish(row, now, InboxState.UNCONFIRMED, reason="crashed")
            elif row.state is InboxState.OFFERED:
                actions += self._to_waiting(row, now, repeat=True)
            elif row.state is InboxState.WAITING:
                self._wait(row, now)
            if not row.state.is_open and not row.notified:
                actions += self._notices.owe(row, now)
        for entity in self._roster.entities.values():
            actions += self.pump(entity.gid, now)
        return actions

    # --- arrival

    def arrive(self, message: VerifiedEnvelope, gid: Gid, now: Now) -> list[Action]:
        """Take a verified message for `gid`: commit it, and offer or deliver it when it may be."""
        row = self._row_for(message, gid, now)
        entity = self._roster.entities[gid]
        wait = self._waits.answer_wait(gid, row.re) if message.envelope.kind == "REPLY" else None
        pull = self._waits.pull_for(gid, row.sender) if wait is None and entity.takes == "pull" else None
        actions: list[Action] = [Commit(row, message.header, message.body, message.sig, message.proof)]
        self._wait(row, now)
        if wait is not None:
            actions += self._offer_to_wait(wait, [row], now)
        elif pull is not None:
            actions += self.pull(pull, now)
        elif entity.takes == "pull":
            actions += self._notices.owe(row, now)
        else:
            actions += self.pump(gid, now)
        return [*actions, *self._check_full(gid)]

    def _row_for(self, message: VerifiedEnvelope, gid: Gid, now: Now) -> InboxRow:
        envelope = message.envelope
        self._seq += 1
        return InboxRow(
            msg_id=envelope.msg_id,
            gid=gid,
            leaf=Leaf(message.leaf),
            state=InboxState.WAITING,
            kind=envelope.kind,
            sender=envelope.sender,
            from_host=envelope.host,
            trace_id=envelope.trace_id,
            ts=envelope.ts,
            expires_at=envelope.expires_at,
            arrived_at=now.wall,
            at=now.wall,
            seq=self._seq,
            size=len(message.body),
            re=envelope.re,
            when=envelope.when or "idle",
            priority=4 if envelope.priority is None else envelope.priority,
            intent=envelope.intent or "directive",
            wants_reply=envelope.expects_reply,
            auto=bool(envelope.auto),
            depth=envelope.depth or 0,
            notified=self._roster.entities[gid].takes != "pull",
        )

    def holds(self, message: VerifiedEnvelope, gid: Gid) -> bool:
        """True when these very bytes came in already (twice in one batch: the store did not know them yet)."""
        known = self.rows.get((message.envelope.msg_id, gid))
        return known is not None and known.leaf == message.leaf

    # --- the forward lane

    def pump(self, gid: Gid, now: Now) -> list[Action]:
        """Start the next delivery to a push entity, unless one is in hand or it is not there."""
        entity, agent = self._roster.entities.get(gid), self._agents.setdefault(gid, _Agent())
        lane = self._lanes.get(gid)
        if entity is None or entity.takes != "push" or agent.in_hand or lane is None or not lane.count:
            return []
        if entity.status in ("away", "stopping", "gone"):
            agent.why = f"{entity.name} is {entity.status}"
            return []
        actions: list[Action] = []
        for row in lane.heads():
            if row.expires_at <= now.wall:
                actions += self._finish(row, now, InboxState.EXPIRED)
                continue
            agent.in_hand = (row.msg_id, gid)
            self._timers.cancel(("gate", gid))
            return [*actions, Reserve(row)]
        return actions

    def reserved(self, gid: Gid, msg_id: MsgId, now: Now) -> list[Action]:
        """The agent would take it now: mark it, then write. The mark is on disk before the first byte."""
        row = self.rows.get((msg_id, gid))
        if row is None or row.state is not InboxState.WAITING:
            return self._release(gid, now)
        if row.expires_at <= now.wall:
            return [*self._finish(row, now, InboxState.EXPIRED), *self._release(gid, now)]
        agent = self._agents[gid]
        agent.backoff_s, agent.why = RETRY_FIRST_S, ""
        marked = self._change(row, now, state=InboxState.INJECTING)
        self._lane(gid).remove(row)
        self._timers.cancel(("expiry", msg_id, gid))
        return [Record(marked, row), Inject(marked)]

    def not_ready(self, gid: Gid, msg_id: MsgId, why: str, now: Now) -> list[Action]:
        """Not now: look again later, a little less often each time, or as soon as the agent is seen idle."""
        agent = self._agents.setdefault(gid, _Agent())
        agent.in_hand, agent.why = None, why
        if agent.since == 0:
            agent.since = now.wall
        self._timers.set(("gate", gid), Seconds(now.mono + agent.backoff_s))
        agent.backoff_s = min(agent.backoff_s * 2, RETRY_MOST_S)
        return []

    def injected(self, gid: Gid, msg_id: MsgId, outcome: str, via: str, detail: str, now: Now) -> list[Action]:
        """What came of the write; `nothing-written` is the only outcome after which it may be tried again."""
        row = self.rows.get((msg_id, gid))
        actions: list[Action] = []
        if row is not None and row.state is InboxState.INJECTING:
            if outcome == "submitted":
                actions = self._finish(row, now, InboxState.INJECTED, via=via, detail=detail)
            elif outcome == "nothing-written":
                actions = self._to_waiting(row, now, repeat=row.repeat)
            else:
                actions = self._finish(row, now, InboxState.UNCONFIRMED, reason="not-observed", via=via, detail=detail)
        if outcome == "nothing-written":
            return [*actions, *self.not_ready(gid, msg_id, detail, now)]
        return [*actions, *self._release(gid, now)]

    def _release(self, gid: Gid, now: Now) -> list[Action]:
        agent = self._agents[gid]
        agent.in_hand, agent.since = None, WallMs(0)
        return [*self.pump(gid, now), *self._check_full(gid)]

    def seen_answered(self, row: InboxRow, now: Now) -> list[Action]:
        """The agent replied to a message that nobody had seen it take: it did."""
        current = self.rows.get((row.msg_id, row.gid), row)
        if current.state is not InboxState.UNCONFIRMED:
            return []
        return self._finish(current, now, InboxState.INJECTED, via=current.via or "reply")

    # --- the reply lane

    def pull(self, call: PullCall, now: Now) -> list[Action]:
        """Offer what waits to a pulling client; its confirmation drains it."""
        actions: list[Action] = []
        rows: list[InboxRow] = []
        for row in list(self._lane(call.gid).in_order(call.sender)):
            if row.expires_at <= now.wall:
                actions += self._expire(row, now)
            elif len(rows) < call.limit:
                rows.append(row)
        if not rows:
            return actions
        self._waits.end(call.call)
        cursor, records = self._offer(call.session, rows, now)
        keys = tuple((row.msg_id, row.gid) for row in rows)
        return [*actions, *records, Resolve(call.call, Offered(keys, cursor))]

    def answers(self, wait: WaitCall, now: Now) -> list[Action]:
        """A call begins to wait: what it waits for may be here already."""
        ids = {msg_id for msg_id, _ in wait.rows}
        rows = [r for r in self._lane(wait.gid).in_order() if r.kind == "REPLY" and r.re in ids]
        return self._offer_to_wait(wait, rows, now) if rows else []

    def _offer_to_wait(self, wait: WaitCall, rows: list[InboxRow], now: Now) -> list[Action]:
        self._waits.end(wait.call)
        cursor, records = self._offer(wait.session, rows, now)
        keys = tuple((row.msg_id, row.gid) for row in rows)
        return [*records, Resolve(wait.call, WaitOver(tuple(wait.rows.values()), keys, cursor))]

    def _offer(self, session: str, rows: list[InboxRow], now: Now) -> tuple[int, list[Action]]:
        self._cursor += 1
        self._offers[self._cursor] = _Offer(session, [(r.msg_id, r.gid) for r in rows])
        self._timers.set(("lease", str(self._cursor)), Seconds(now.mono + OFFER_LEASE_S))
        actions: list[Action] = []
        for row in rows:
            self._lane(row.gid).remove(row)
            self._offer_of[(row.msg_id, row.gid)] = self._cursor
            offered = self._change(row, now, state=InboxState.OFFERED, notified=False)
            actions.append(Record(offered, row))
            actions += self._notices.owe(offered, now)
        return self._cursor, actions

    def confirmed(self, session: str, cursor: int, now: Now) -> list[Action]:
        """The client has what was offered to its session up to `cursor`."""
        actions: list[Action] = []
        for number in [n for n, o in self._offers.items() if o.session == session and n <= cursor]:
            for key in self._close_offer(number):
                if (row := self.rows.get(key)) and row.state is InboxState.OFFERED:
                    actions += self._finish(row, now, InboxState.DRAINED, via="pull")
                    actions += self._check_full(row.gid)
        return actions

    def lease_over(self, cursor: int, now: Now) -> list[Action]:
        """Not confirmed in time, or the client is gone: offered again, as a repeat."""
        actions: list[Action] = []
        for key in self._close_offer(cursor):
            row = self.rows.get(key)
            if row is None or row.state is not InboxState.OFFERED:
                continue
            if key in self._ends_as or row.expires_at <= now.wall:
                self._ends_as.pop(key, None)
                actions += self._finish(row, now, InboxState.UNCONFIRMED, reason="offered")
                continue
            actions += self._to_waiting(row, now, repeat=True)
            if pull := self._waits.pull_for(row.gid, row.sender):
                actions += self.pull(pull, now)
        return actions

    def session_gone(self, session: str, now: Now) -> list[Action]:
        self._waits.end_session(session)
        cursors = [n for n, offer in self._offers.items() if offer.session == session]
        return [action for cursor in cursors for action in self.lease_over(cursor, now)]

    def _close_offer(self, cursor: int) -> list[Key]:
        self._timers.cancel(("lease", str(cursor)))
        offer = self._offers.pop(cursor, None)
        keys = offer.keys if offer else []
        for key in keys:
            self._offer_of.pop(key, None)
        return keys

    # --- ends

    def expired(self, key: Key, now: Now) -> list[Action]:
        """The timer of `expiresAt` went off; the wall clock decides."""
        row = self.rows.get(key)
        if row is None or row.state is not InboxState.WAITING:
            if row is not None and row.state is InboxState.OFFERED:
                self._ends_as[key] = "expired"
            return []
        if row.expires_at > now.wall:
            self._timers.set(("expiry", *key), at_wall(row.expires_at, now))
            return []
        return [*self._expire(row, now), *self._check_full(row.gid)]

    def _expire(self, row: InboxRow, now: Now) -> list[Action]:
        if row.repeat:
            return self._finish(row, now, InboxState.UNCONFIRMED, reason="offered")
        return self._finish(row, now, InboxState.EXPIRED)

    def recall(self, row: InboxRow, now: Now) -> tuple[InboxRow, list[Action]]:
        """Its sender's host calls it back: only what was never shown to anybody can be `recalled`."""
        key = (row.msg_id, row.gid)
        row = self.rows.get(key, row)
        if row.state is InboxState.OFFERED:
            self._ends_as[key] = "recalled"
            return row, []
        if row.state is not InboxState.WAITING:
            return row, []
        state = InboxState.UNCONFIRMED if row.repeat else InboxState.RECALLED
        actions = self._finish(row, now, state, reason="offered" if row.repeat else "", tell=False)
        return self.rows.get(key, dataclasses.replace(row, state=state)), [*actions, *self._check_full(row.gid)]

    def tombstone(
        self, msg_id: MsgId, gid: Gid, leaf: Leaf, host: HostId, expires_at: WallMs, trace_id: TraceId, now: Now
    ) -> tuple[InboxRow, list[Action]]:
        """Called back before it came: if it comes, it is acknowledged and nothing else."""
        row = InboxRow(
            msg_id=msg_id,
            gid=gid,
            leaf=leaf,
            state=InboxState.RECALLED,
            kind="",
            sender=Gid(""),
            from_host=host,
            trace_id=trace_id,
            ts=now.wall,
            expires_at=expires_at,
            arrived_at=now.wall,
            at=now.wall,
            seq=0,
            size=0,
        )
        return row, [Record(row)]

    def close(self, gid: Gid, reason: str, now: Now) -> list[Action]:
        """The entity is gone for good: what waits for it ends."""
        actions: list[Action] = []
        for row in list(self._lane(gid)):
            if row.repeat:
                actions += self._finish(row, now, InboxState.UNCONFIRMED, reason="offered")
            else:
                actions += self._finish(row, now, InboxState.FAILED, reason=reason)
        self._lanes.pop(gid, None)
        self._agents.pop(gid, None)
        self._full.discard(gid)
        self._timers.cancel(("gate", gid))
        return actions

    def revoke(self, host: HostId, now: Now) -> list[Action]:
        """The key of `host` is no longer trusted: nothing of it that still waits is delivered."""
        actions: list[Action] = []
        for row in [r for lane in self._lanes.values() for r in lane if r.from_host == host]:
            if row.repeat:
                actions += self._finish(row, now, InboxState.UNCONFIRMED, reason="offered")
            else:
                actions += self._finish(row, now, InboxState.FAILED, reason="revoked")
        return actions

    def undo(self, row: InboxRow, before: InboxRow | None, now: Now) -> list[Action]:
        """The store could not record `row`: it is what it was."""
        key = (row.msg_id, row.gid)
        self._lane(row.gid).remove(row)
        if (agent := self._agents.get(row.gid)) and agent.in_hand == key:
            agent.in_hand = None
            self._timers.set(("gate", row.gid), Seconds(now.mono + RETRY_MOST_S))
        if before is None:
            self.rows.pop(key, None)
            self._timers.cancel(("expiry", *key))
        elif before.state is InboxState.WAITING:
            self._wait(before, now)
        else:
            self.rows[key] = before
        return []

    # --- views

    def waiting_for(self, gid: Gid) -> int:
        lane = self._lanes.get(gid)
        return lane.count if lane else 0

    def why_waiting(self, gid: Gid) -> tuple[str, WallMs]:
        """Why the head of the lane is not delivered yet, and since when; empty when nothing is known."""
        agent = self._agents.get(gid)
        return (agent.why, agent.since) if agent else ("", WallMs(0))

    def is_full(self, gid: Gid) -> bool:
        return gid in self._full

    # --- inside

    def _lane(self, gid: Gid) -> Lane:
        return self._lanes.setdefault(gid, Lane())

    def _wait(self, row: InboxRow, now: Now) -> None:
        key = (row.msg_id, row.gid)
        self.rows[key] = row
        self._lane(row.gid).add(row)
        self._timers.set(("expiry", *key), at_wall(row.expires_at, now))

    def _to_waiting(self, row: InboxRow, now: Now, *, repeat: bool) -> list[Action]:
        waiting = dataclasses.replace(row, state=InboxState.WAITING, repeat=repeat, at=now.wall)
        self._wait(waiting, now)
        return [Record(waiting, row)]

    def _change(self, row: InboxRow, now: Now, **changes: object) -> InboxRow:
        changed = dataclasses.replace(row, at=now.wall, **changes)  # type: ignore[arg-type]
        self.rows[(row.msg_id, row.gid)] = changed
        return changed

    def _finish(
        self,
        row: InboxRow,
        now: Now,
        state: InboxState,
        *,
        reason: str = "",
        detail: str = "",
        via: str = "",
        tell: bool = True,
    ) -> list[Action]:
        key = (row.msg_id, row.gid)
        self._lane(row.gid).remove(row)
        self._timers.cancel(("expiry", *key))
        done = dataclasses.replace(
            row, state=state, reason=reason, detail=detail, via=via, at=now.wall, notified=not tell
        )
        if state is InboxState.UNCONFIRMED:
            self.rows[key] = done
        else:
            self.rows.pop(key, None)
        return [Record(done, row), *(self._notices.owe(done, now) if tell else [])]

    def _check_full(self, gid: Gid) -> list[Action]:
        lane, entity = self._lanes.get(gid), self._roster.entities.get(gid)
        if lane is None or entity is None:
            return []
        limits = self._limits
        if gid not in self._full and (lane.count >= limits.messages or lane.bytes >= limits.bytes):
            self._full.add(gid)
            return [PauseInbox(gid)]
        if gid in self._full and (
            lane.count < limits.messages * RESUME_BELOW and lane.bytes < limits.bytes * RESUME_BELOW
        ):
            self._full.discard(gid)
            return [OpenInbox(queue_owner(entity))]
        return []

