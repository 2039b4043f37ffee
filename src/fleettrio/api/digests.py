"""What an agent is told beside its messages: how things stand when its session starts, and what it sent in vain."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence

from fleettrio.api.moments import ago
from fleettrio.api.sentences import sent_sentence
from fleettrio.core.entity import Entity
from fleettrio.core.failures import FailuresTold
from fleettrio.core.peer import PeerEntity
from fleettrio.core.rows import CALL, SentRow
from fleettrio.ids import Gid, HostId, short_id
from fleettrio.local.digest import DigestFacts, digest, failures
from fleettrio.local.sanitise import one_line
from fleettrio.perform import Performer

__all__ = ("Digests", "waiting_by_sender")

_ABSENT = ("away", "stopping", "gone", "starting")
_LINE = 200


class Digests:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._gateway = performer.gateway

    async def digest_of(self, gid: Gid) -> str:
        """What an agent is shown at its session's start, framed, at most 1 500 characters; empty for no agent of this
        host. What failed of its messages counts as told from now on.

        Raises `StoreError`. Cancelled, nothing counts as told.
        """
        entity = self._gateway.roster.entities.get(gid)
        if entity is None:
            return ""
        now = self._performer.clock.now().wall
        address, host = self._gateway.roster.address, self._gateway.settings.me.host
        open_rows = await self._performer.store.unanswered(gid, now)
        facts = DigestFacts(
            address=address(gid, host),
            takes=entity.takes,
            failed=await self.take_failures(gid),
            around=self._around(gid),
            waiting=waiting_by_sender(self._performer, gid),
            unanswered=[
                (short_id(row.msg_id), address(row.sender, row.from_host), f"{ago(row.ts, now)} old")
                for row in open_rows
            ],
            nonce=secrets.token_hex(4),
        )
        return digest(facts)

    async def take_failures(self, gid: Gid) -> list[str]:
        """A line for each message of `gid` that failed and that it was not told of: it is, with this. Cleaned."""
        rows = self._gateway.failures.of(gid)
        if rows:
            await self._performer.handle(FailuresTold(gid))
        return self._lines(rows)

    async def framed_failures(self, gid: Gid) -> str:
        """The same as lines of the frame, for a hook; empty when nothing failed."""
        lines = await self.take_failures(gid)
        return failures(lines, secrets.token_hex(4)) if lines else ""

    # --- inside

    def _lines(self, rows: Sequence[SentRow]) -> list[str]:
        now = self._performer.clock.now().wall
        lines = []
        for row in rows:
            recipient = self._gateway.coordination.correspondent(row)
            sentence = sent_sentence(row, recipient, self._gateway, now)
            lines.append(one_line(f"{short_id(row.msg_id)} to {recipient}: {sentence}", _LINE))
        return lines

    def _around(self, gid: Gid) -> list[tuple[str, str]]:
        """The others, those of this host first."""
        roster, now = self._gateway.roster, self._performer.clock.now().wall
        here: list[Entity] = [
            e for e in roster.entities.values() if e.gid not in (gid, self._gateway.settings.me.human)
        ]
        there: list[PeerEntity] = [e for e in roster.others.values() if not roster.is_silent(e.host, now)]
        listed = [(roster.address(e.gid, HostId("")), e.status) for e in here if e.status not in _ABSENT]
        return [*listed, *((roster.address(e.gid, e.host), e.status) for e in there if e.status not in _ABSENT)]


def waiting_by_sender(performer: Performer, gid: Gid) -> list[tuple[str, int]]:
    """What waits for `gid`, counted by its senders' addresses, the most first."""
    gateway = performer.gateway
    waiting = [row for row in gateway.ledger.lane(gid) if row.when != CALL]
    return Counter(gateway.coordination.correspondent(row) for row in waiting).most_common()
