"""The loop guard: agents that answer each other for ever are held, and a person is told.

    waiting ──trips where it would land──► waiting(loop) ──a person: `resume`──► waiting, counted anew
                                              └── expires, is called back: as any message

Rules:
1. Judged where a message would land, when it arrives. Trips: the pair changed direction 8 times within a trace without
   a person; the same body twice within 5 minutes between a pair; depth 32.
2. A trip holds the flow (the pair, in that trace): what waits of it and what comes of it later. The rest of the lane
   passes by. An alarm is told once, here; the sender's host is told `held(loop)` of each, and when it goes on.
3. Nothing from a person and nothing for a person is ever a loop; a person's message begins the count anew. Only a
   person lets a flow go on: its messages count as a person's own from there.
4. Buckets (`rates`) only delay, by the time that was signed. What answers a brief for the first time was asked for:
   neither bucket nor body counts it.
5. A question cannot be held: one that is too deep is not put, and its asker is told at once.
6. A flow is held for as long as a held row of it waits, so that rows bound the memory; counts are bounded by host, so
   that no host can push out what is known of another.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from fleettrio._accel import leaf_of
from fleettrio.core.actions import Action, Note
from fleettrio.core.compose import Identity
from fleettrio.core.depth import Depths
from fleettrio.core.gate import Hold
from fleettrio.core.ledger import Ledger
from fleettrio.core.rates import PER_PAIR, PER_RECIPIENT, Buckets
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState, Key, SentRow
from fleettrio.ids import Gid, HostId, MsgId, Now, TraceId, WallMs
from fleettrio.wire.envelope import Kind

__all__ = ("LOOP", "Guard")

LOOP = "loop"
MOST_TURNS = 8
MOST_DEPTH = 32
SAME_BODY_MS = 5 * 60_000
FLOWS_PER_HOST, BODIES_PER_HOST = 1_024, 1_024

Pair = tuple[Gid, Gid]
Flow = tuple[Gid, Gid, TraceId]


def pair_of(one: Gid, other: Gid) -> Pair:
    """The two, in either direction."""
    return (one, other) if one <= other else (other, one)


class _Count(msgspec.Struct):
    """How often a flow changed its direction, as of which word of a person."""

    last: Gid
    turns: int = 0
    since: int = 0


class _Memory:
    """What is known of the flows with one other host, the latest of it."""

    def __init__(self) -> None:
        self.flows: OrderedDict[Flow, _Count] = OrderedDict()
        self.bodies: OrderedDict[tuple[Pair, bytes], tuple[MsgId, WallMs]] = OrderedDict()


class Guard:
    def __init__(
        self,
        me: Identity,
        depths: Depths,
        ledger: Ledger,
        roster: Roster,
        sent: Callable[[Key], SentRow | None],
    ) -> None:
        self._me = me
        self._depths = depths
        self._ledger = ledger
        self._roster = roster
        self._sent = sent
        self._pairs = Buckets(PER_PAIR)
        self._recipients = Buckets(PER_RECIPIENT)
        self._memory: dict[HostId, _Memory] = {}
        self._held: dict[Flow, set[Key]] = {}
        self._sweep_at = FLOWS_PER_HOST
        self._word = 0
        """Counts the words of persons."""
        self._spoke: OrderedDict[str, int] = OrderedDict()
        """Which of them was the last one for an agent, or in a trace."""

    def start(self, rows: Iterable[InboxRow]) -> None:
        """What the last process held is held."""
        for row in rows:
            if row.held == LOOP and row.state is InboxState.WAITING:
                self._held.setdefault(_flow(row), set()).add(row.key)

    def is_person(self, gid: Gid, host: HostId) -> bool:
        """True for the person at `host`."""
        return self._depths.is_person(gid, host)

    # --- what goes out and comes in

    def went_out(self, row: SentRow, body: bytes, now: Now) -> None:
        """An entity here sent something to another host: its half of the flow."""
        if row.sender == self._me.human:
            return self._person_spoke(row.gid, row.trace_id)
        memory = self._memory.setdefault(row.to_host, _Memory())
        pair = pair_of(row.sender, row.gid)
        self._turn(memory, (*pair, row.trace_id), row.sender, row.gid)
        if row.kind != Kind.REPLY:
            self._note_body(memory, row, body, now)
        return None

    def arrived(self, row: InboxRow, body: bytes, now: Now) -> tuple[InboxRow, list[Action]]:
        """A message is here, its row not recorded yet: the row as it is to be recorded, and what is said about it."""
        if self._depths.is_person(row.sender, row.from_host):
            self._person_spoke(row.gid, row.trace_id)
            return row, []
        if row.gid == self._me.human:
            return row, []
        flow = _flow(row)
        memory = self._memory.setdefault(row.from_host, _Memory())
        turns = self._turn(memory, flow, row.sender, row.gid)
        is_repeated = self._note_body(memory, row, body, now) and not self._is_asked_for(row)
        if self._is_held(flow):
            return self._hold(row, flow, "it belongs to a flow that is held"), []
        why = _why(row, turns, is_repeated=is_repeated)
        if not why:
            return row, []
        actions = [action for other in self._waiting(flow) for action in self._hold_waiting(other, flow, why, now)]
        sender = self._roster.address(row.sender, row.from_host)
        recipient = self._roster.address(row.gid, self._me.host)
        text = f"{sender} and {recipient} go round in circles: {why}"
        note = Note(LOOP, row.msg_id, row.gid, row.trace_id, row.from_host, "held", text, alarm=True)
        return self._hold(row, flow, why), [*actions, note]

    def too_deep(self, question: InboxRow) -> list[Action]:
        """What is said of a question that is too many steps from a person to be put; nothing: it may be."""
        if question.depth < MOST_DEPTH or self._depths.is_person(question.sender, question.from_host):
            return []
        sender = self._roster.address(question.sender, question.from_host)
        recipient = self._roster.address(question.gid, self._me.host)
        text = f"{sender} asks {recipient} in circles: {_why(question, 0, is_repeated=False)}"
        about = (question.msg_id, question.gid, question.trace_id, question.from_host)
        return [Note(LOOP, *about, "not put", text, alarm=True)]

    def landed(self, *rows: InboxRow) -> None:
        """These were put into their agent, or handed to their client, together."""
        self._depths.landed(*rows)
        for row in rows:
            if self._is_counted(row):
                self._pairs.use(pair_of(row.sender, row.gid), row.ts)
                self._recipients.use(row.gid, row.ts)

    # --- the gate

    def judge(self, row: InboxRow, now: Now) -> Hold | None:
        if row.held == LOOP:
            return Hold(f"a loop was stopped: {row.detail}", passes=True)
        if not self._is_counted(row):
            return None
        pair = pair_of(row.sender, row.gid)
        free_at = max(self._pairs.free_at(pair, row.ts), self._recipients.free_at(row.gid, row.ts))
        if free_at <= row.ts:
            return None
        peer = self._roster.peers.get(row.from_host)
        at = WallMs(free_at - (peer.offset_ms if peer else 0))
        return Hold("more comes than may land in a minute", until=at) if at > now.wall else None

    # --- a person's word

    def resume(self, rows: Iterable[InboxRow], now: Now, *names: str) -> list[Action]:
        """A person lets these go on: they count as the person's own. `names`: of agents or traces that are counted
        anew; none: all are."""
        actions: list[Action] = []
        self._person_spoke(*names)
        if not names:
            self._memory.clear()
        for row in rows:
            if row.held != LOOP:
                continue
            self._held.pop(_flow(row), None)
            self._person_spoke(row.gid, row.trace_id)
            actions += self._ledger.change_told(row, now, held="", detail="", depth=0)
        return actions

    def typed(self, gid: Gid) -> None:
        """A person typed a prompt into this agent."""
        self._person_spoke(gid)

    # --- inside

    def _person_spoke(self, *names: str) -> None:
        self._word += 1
        for name in names:
            self._spoke[name] = self._word
            self._spoke.move_to_end(name)
        while len(self._spoke) > FLOWS_PER_HOST:
            self._spoke.popitem(last=False)

    def _turn(self, memory: _Memory, flow: Flow, sender: Gid, recipient: Gid) -> int:
        """How often the flow has changed its direction, this message included, since a person's word."""
        spoke = max(self._spoke.get(name, 0) for name in (sender, recipient, flow[2]))
        count = memory.flows.pop(flow, None)
        if count is None or count.since < spoke:
            count = _Count(sender, since=spoke)
        elif count.last != sender:
            count.last, count.turns = sender, count.turns + 1
        memory.flows[flow] = count
        if len(memory.flows) > FLOWS_PER_HOST:
            memory.flows.popitem(last=False)
        return count.turns

    def _note_body(self, memory: _Memory, row: InboxRow | SentRow, body: bytes, now: Now) -> bool:
        """Whether the pair has had the same body lately, in another message; from now on it has."""
        name = (pair_of(row.sender, row.gid), leaf_of(b"", body))
        msg_id, at = memory.bodies.pop(name, (row.msg_id, now.wall))
        memory.bodies[name] = (row.msg_id, now.wall)
        if len(memory.bodies) > BODIES_PER_HOST:
            memory.bodies.popitem(last=False)
        return msg_id != row.msg_id and now.wall - at < SAME_BODY_MS

    def _is_counted(self, row: InboxRow) -> bool:
        return not self._depths.is_person(row.sender, row.from_host) and not self._is_asked_for(row)

    def _is_asked_for(self, row: InboxRow) -> bool:
        """True for the first answer to a brief of the recipient's."""
        if row.kind not in (Kind.REPLY, Kind.ANSWER) or row.re is None:
            return False
        brief = self._sent((row.re, row.sender))
        return brief is not None and brief.kind != Kind.REPLY and brief.answered_by in (None, row.msg_id)

    def _is_held(self, flow: Flow) -> bool:
        """True while a held row of it waits."""
        keys = self._held.get(flow)
        if keys is None:
            return False
        if any((row := self._ledger.rows.get(key)) and row.held == LOOP for key in keys):
            return True
        del self._held[flow]
        return False

    def _hold(self, row: InboxRow, flow: Flow, why: str) -> InboxRow:
        if len(self._held) > self._sweep_at:
            self._sweep_at = max(FLOWS_PER_HOST, 2 * sum(map(self._is_held, list(self._held))))
        self._held.setdefault(flow, set()).add(row.key)
        is_owed = row.from_host != self._me.host
        return msgspec.structs.replace(row, held=LOOP, detail=why, notified=row.notified and not is_owed)

    def _hold_waiting(self, row: InboxRow, flow: Flow, why: str, now: Now) -> list[Action]:
        held = self._hold(row, flow, why)
        return self._ledger.change_told(row, now, held=held.held, detail=why)

    def _waiting(self, flow: Flow) -> list[InboxRow]:
        lanes = [self._ledger.lane(gid) for gid in flow[:2] if gid in self._roster.entities]
        return [row for lane in lanes for row in lane if _flow(row) == flow and row.held != LOOP]


def _flow(row: InboxRow) -> Flow:
    return (*pair_of(row.sender, row.gid), row.trace_id)


def _why(row: InboxRow, turns: int, *, is_repeated: bool) -> str:
    """Which rule a message trips; empty when none."""
    if turns >= MOST_TURNS:
        return f"{turns} answers without a person"
    if is_repeated:
        return f"the same words twice within {SAME_BODY_MS // 60_000} minutes"
    if row.depth >= MOST_DEPTH:
        return f"{row.depth} steps without a person"
    return ""
