"""What a person is told of as it happens: a blocked agent, a loop, a failure, mail for the person, a host gone.

Rules:
1. News is read off what was decided, and changes nothing of it.
2. Each subject (an agent, a flow, a host) is told of once in 10 minutes, whatever happens to it meanwhile; only the
   kinds of news that the person wants.
3. What a waiting call of the person gets at once is no news: the person is there.
4. A host is gone when it was not heard for 3 beats, while the broker was there to hear it by. Without the broker that
   itself is the news, and nothing is said of hosts. What becomes of hosts also goes into the journal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from fleettrio.core.actions import (
    Action,
    Commit,
    Note,
    Notify,
    RecordEntity,
    RecordPeer,
    RecordSent,
    Resolve,
    StoreAction,
)
from fleettrio.core.calls import NOBODY, Accepted, Offered, WaitOver
from fleettrio.core.compose import Identity
from fleettrio.core.directory import SILENT_MS
from fleettrio.core.entity import Entity
from fleettrio.core.guard import LOOP
from fleettrio.core.link import SETTLING_S, Link
from fleettrio.core.peer import Peer
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, Key, SentRow, SentState
from fleettrio.core.rules import TimerRules
from fleettrio.core.timers import Timers, at_wall
from fleettrio.ids import Gid, HostId, Now, Seconds, WallMs, short_id
from fleettrio.wire.envelope import Kind

__all__ = ("HOST", "NEWS", "News", "has_failed", "told_fates")

NEWS = ("blocked", "loop", "failed", "reply", "host")
"""The kinds of news, as a person asks for them."""
HOST = "host"
"""`Note.what` of what became of another host; its reason says what."""
ONCE_IN_S = 600.0
SUBJECTS = 1_024
_FAILED = frozenset({SentState.FAILED, SentState.EXPIRED})
_SUBJECTS = frozenset({RecordEntity, Note, RecordPeer})
_WORDS = {Kind.REPLY: "answered", Kind.ASK: "asks", Kind.ANSWER: "answered", Kind.BROADCAST: "announced something"}


def has_failed(action: RecordSent) -> bool:
    """True when a message of ours gets its word just now, and it was not, and will not be, delivered."""
    return action.row.state in _FAILED and (action.before is None or action.before.state not in _FAILED)


def told_fates(actions: Iterable[Action]) -> set[Key]:
    """The messages sent from here whose fate a waiting call gets with these actions."""
    keys: set[Key] = set()
    for action in actions:
        match action:
            case Resolve(call, Accepted(rows) | WaitOver(rows)) if call != NOBODY:
                keys.update(row.key for row in rows)
    return keys


def _handed(actions: Iterable[Action]) -> set[Key]:
    """The messages that came here and that a waiting call gets with these actions."""
    keys: set[Key] = set()
    for action in actions:
        match action:
            case Resolve(result=WaitOver() as over):
                keys.update((*over.answers, *over.questions))
            case Resolve(result=Offered(offered)):
                keys.update(offered)
    return keys


class News:
    def __init__(self, me: Identity, roster: Roster, link: Link, timers: Timers, wanted: Iterable[str]) -> None:
        self._me = me
        self._roster = roster
        self._link = link
        self._timers = timers
        self._wanted = frozenset(wanted)
        self._told: OrderedDict[tuple[str, str], Seconds] = OrderedDict()
        self._blocked = {e.gid for e in roster.entities.values() if e.status == "blocked"}
        self._gone = {p.host for p in roster.peers.values() if p.has_left}
        self.timer_rules: TimerRules = {"silent": lambda name, now: self._silent(HostId(name[0]), now)}

    def start(self, now: Now) -> list[Action]:
        """Hosts that were there when the last process ended may be gone."""
        for peer in self._roster.peers.values():
            if peer.heard_at and not peer.has_left:
                self._expect(peer.host, now.wall, now)
        return []

    def follow(self, records: Sequence[StoreAction], hand_overs: Sequence[Action], now: Now) -> list[Action]:
        """What a person is to be told of what was decided; with it what goes into the journal."""
        subjects = [action for action in records if self._may_be_news(action)]
        if not subjects:
            return []
        told, handed = told_fates(hand_overs), _handed(hand_overs)
        return [found for action in subjects for found in self._about(action, told, handed, now)]

    def _may_be_news(self, action: StoreAction) -> bool:
        if type(action) is RecordSent:
            return has_failed(action)
        if type(action) is Commit:
            return action.row.gid == self._me.human
        return type(action) in _SUBJECTS

    def _about(self, action: Action, told: set[Key], handed: set[Key], now: Now) -> Iterator[Action]:
        match action:
            case RecordEntity(entity):
                yield from self._agent(entity, now)
            case Note(what="loop", reason="held") as note:
                yield from self._tell(LOOP, note.trace_id or "", f"{note.detail}; held until you resume it", now)
            case RecordSent(row=row) if row.key not in told:
                yield from self._tell("failed", row.gid, self._failure(row), now)
            case Commit(row=mail) if mail.key not in handed:
                yield from self._tell("reply", mail.sender, self._mail(mail), now, about=mail.key)
            case RecordPeer(peer):
                yield from self._peer(peer, now)

    # --- agents and messages

    def _agent(self, entity: Entity, now: Now) -> Iterator[Action]:
        if entity.status != "blocked":
            self._blocked.discard(entity.gid)
        elif entity.gid not in self._blocked:
            self._blocked.add(entity.gid)
            yield from self._tell("blocked", entity.gid, f"{entity.name} waits at a dialog for a person's answer", now)

    def _failure(self, row: SentRow) -> str:
        who, to = self._roster.address(row.sender, self._me.host), self._roster.address(row.gid, row.to_host)
        why = ": ".join(part for part in (row.reason, row.detail) if part)
        return f"{short_id(row.msg_id)} of {who} to {to} {row.state}" + (f": {why}" if why else "")

    def _mail(self, row: InboxRow) -> str:
        who = self._roster.address(row.sender, row.from_host)
        command = "answer" if row.kind == Kind.ASK else "show"
        return f"{who} {_WORDS.get(Kind(row.kind), 'wrote to you')}: fleettrio {command} {short_id(row.msg_id)}"

    # --- hosts

    def _peer(self, peer: Peer, now: Now) -> Iterator[Action]:
        if not peer.heard_at:
            return
        if peer.has_left:
            self._timers.cancel(("silent", peer.host))
            if peer.host not in self._gone:
                yield from self._host_gone(peer.host, "left", f"{peer.host} has left: its daemon was ended", now)
            return
        if peer.host in self._gone:
            self._gone.discard(peer.host)
            yield Note(HOST, None, None, None, peer.host, "back")
        self._expect(peer.host, peer.heard_at, now)

    def _expect(self, host: HostId, heard_at: WallMs, now: Now) -> None:
        self._timers.set(("silent", host), at_wall(WallMs(heard_at + SILENT_MS + 1), now))

    def _silent(self, host: HostId, now: Now) -> list[Action]:
        peer = self._roster.peers.get(host)
        if peer is None or not self._roster.is_silent(host, now.wall):
            if peer is not None and not peer.has_left:
                self._expect(host, peer.heard_at, now)
            return []
        if not self._link.is_open or self._link.is_settling(now):
            self._timers.set(("silent", host), Seconds(now.mono + SETTLING_S + SILENT_MS / 1000))
            text = f"no other host is heard: {self._link.detail or 'the broker is not reached'}"
            return [] if self._link.is_open else list(self._tell(HOST, "", text, now))
        return list(self._host_gone(host, "silent", f"{host} is not heard any more: asleep, off, or cut off", now))

    def _host_gone(self, host: HostId, how: str, text: str, now: Now) -> Iterator[Action]:
        self._gone.add(host)
        yield Note(HOST, None, None, None, host, how)
        yield from self._tell(HOST, host, text, now)

    # --- once in 10 minutes

    def _tell(self, what: str, subject: Gid | str, text: str, now: Now, about: Key | None = None) -> Iterator[Action]:
        last = self._told.get((what, subject))
        if what not in self._wanted or (last is not None and now.mono < last + ONCE_IN_S):
            return
        self._told[what, subject] = now.mono
        self._told.move_to_end((what, subject))
        if len(self._told) > SUBJECTS:
            self._told.popitem(last=False)
        yield Notify(what=what, text=text, about=about)
