"""What users saw: what they asked for, what they were told, what was typed into agents, what clients got and confirmed.

The checker looks at nothing else. A message is known by its body, which says its number: that is what agents and
clients see of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING

from fleettrio.core.rows import SentRow
from fleettrio.ids import Gid, MsgId

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ("FORGED", "Handed", "History", "Message", "Party", "Question", "Told", "Typed", "number_in")


FORGED = b"#0 nobody sent this"


@dataclasses.dataclass(frozen=True, slots=True)
class Party:
    """An entity, as the world knows it."""

    gid: Gid
    name: str
    host: str
    is_push: bool

    @property
    def address(self) -> str:
        return f"{self.name}@{self.host}"


@dataclasses.dataclass(slots=True)
class Message:
    """What somebody asked to be sent, to one recipient; a broadcast is one for each member, under one number."""

    number: int
    msg_id: MsgId
    sender: Party
    to: Party
    kind: str
    when: str
    asked_at: float
    expires_at: float
    verdict: str = ""
    """The state in which the call came back; empty: it never did."""
    mailbox: Gid | None = None
    """By which its sender's host knows the recipient, when that is another lead."""
    was_cancelled: bool = False
    was_retried: bool = False
    was_replaced: bool = False

    @property
    def row_gid(self) -> Gid:
        """In the rows of its sender's host."""
        return self.mailbox or self.to.gid

    @property
    def name(self) -> str:
        return f"#{self.number} ({self.kind} of {self.sender.address} to {self.to.address})"

    @property
    def body(self) -> bytes:
        return f"#{self.number} {self.kind} of {self.sender.address}".encode()


@dataclasses.dataclass(slots=True)
class Question:
    """What somebody asked in its turn, and what came of it."""

    number: int
    msg_id: MsgId
    asker: Party
    to: Party
    session: str
    """Of the asker's calls."""
    given: list[str] = dataclasses.field(default_factory=list)
    """Answers, as the one who was asked gave them."""
    got: list[str] = dataclasses.field(default_factory=list)
    """Answers that came out of the asker's own call."""

    @property
    def body(self) -> bytes:
        return f"?{self.number} of {self.asker.address}".encode()


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What its sender could read about a message from then on."""

    at: float
    msg_id: MsgId
    gid: Gid
    state: str
    reason: str
    said_by: str
    is_answered: bool
    said_at: float
    """When whoever said it says that it came to be so."""


@dataclasses.dataclass(frozen=True, slots=True)
class Typed:
    """Text of a message went into an agent, whole or in part."""

    at: float
    number: int
    agent: Party
    store: int
    """Which store's process did it."""
    is_polled: bool
    """A poll of the agent's own got it: its host waits a lease long for a sign of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Handed:
    """A client got a message."""

    at: float
    number: int
    client: Party
    store: int
    is_repeat: bool
    session: str
    cursor: int


class History:
    def __init__(self, world: World) -> None:
        self._world = world
        self.messages: dict[tuple[int, Gid], Message] = {}
        self.told: list[Told] = []
        self.questions: dict[int, Question] = {}
        self.typed: list[Typed] = []
        self.handed: list[Handed] = []
        self.confirmed: set[tuple[int, Gid]] = set()
        """What a client said that it has."""
        self.dropped: set[int] = set()
        """Numbers of messages of which the world lost a copy that the broker had taken."""
        self.is_word_lost = False
        """The world lost something that was no message: a notice, a question, a beat."""
        self.is_a_host_copied = False
        """Two machines used one key for a while: what either did the other does not know."""
        self.risen: list[str] = []
        """Hosts that were shown alive by what they had said in an earlier life."""
        self.is_anything_forged = False
        """Somebody put bytes into the broker that were not meant to be there."""
        self.is_a_clock_far_off = False
        """Hosts may have refused each other's messages because of their times, and such a word may have been lost."""
        self.healed_at = 0.0
        self.settled_at = 0.0
        """By then whatever happened should be known to whom it concerns; then everybody sleeps over all bounds."""
        self._lines = hashlib.sha256()

    def note(self, *words: object) -> None:
        """One line of the run: identical runs have identical lines."""
        self._lines.update(repr((round(self._world.now, 6), *words)).encode())

    @property
    def digest(self) -> str:
        return self._lines.hexdigest()

    def was_dropped(self, body: bytes) -> None:
        """The broker took it, and it is gone."""
        if body.startswith(b"#"):
            self.dropped.add(number_in(body.decode()))
        elif not body.startswith((b"?", b"!")):
            self.is_word_lost = True

    def asked(self, message: Message) -> None:
        self.messages[message.number, message.to.gid] = message
        self.note("asked", message.name, message.when)

    def was_told(self, row: SentRow) -> None:
        is_answered, said_at = row.answered_by is not None, self._world.seconds(row.at)
        told = Told(self._world.now, row.msg_id, row.gid, str(row.state), row.reason, row.said_by, is_answered, said_at)
        self.told.append(told)
        self.note("told", told.state, told.reason, told.said_by)

    def was_typed(self, text: str, agent: Party, store: int, is_polled: bool = False) -> None:
        self.typed.append(Typed(self._world.now, number_in(text), agent, store, is_polled))
        self.note("typed", text, agent.address)

    def was_handed(self, text: str, client: Party, store: int, is_repeat: bool, session: str, cursor: int) -> None:
        self.handed.append(Handed(self._world.now, number_in(text), client, store, is_repeat, session, cursor))
        self.note("handed", text, client.address, is_repeat, cursor)

    def got_answer(self, number: int, text: str) -> None:
        """An answer came out of the call that waited for it."""
        self.questions[number].got.append(text)
        self.note("answer", number, text)

    def has_confirmed(self, session: str, cursor: int) -> None:
        """The client says that it has what its session was handed up to `cursor`."""
        self.confirmed |= {(h.number, h.client.gid) for h in self.handed if h.session == session and h.cursor <= cursor}
        self.note("confirmed", session, cursor)


def number_in(text: str) -> int:
    """The number that a body says."""
    return int(text.partition(" ")[0].lstrip("#?"))
