"""What clients here ask of others: from the call to the question that goes out, or to why it does not.

Once it is out its turn waits for the answer (`turns`).

Rules:
1. A question goes to somebody who could answer it now: to another than the asker, on a host that is heard.
2. One to somebody whose inbox is full is over before it goes out: it would wait where nobody sees it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fleettrio.core.actions import Action, Fail, RecordSent, Resolve
from fleettrio.core.bodies import unfit
from fleettrio.core.calls import Accepted
from fleettrio.core.compose import Identity, message, sent_row
from fleettrio.core.depth import Step
from fleettrio.core.entity import Entity
from fleettrio.core.ledger import Ledger
from fleettrio.core.live import Live
from fleettrio.core.notices import BACKLOG, NO_WAITER
from fleettrio.core.requests import AskAsked
from fleettrio.core.roster import Roster, UnknownRecipient
from fleettrio.core.rows import SentState
from fleettrio.core.turns import Turns
from fleettrio.errors import FAILED, USAGE
from fleettrio.ids import Gid, Now
from fleettrio.wire.envelope import Kind, default_lifetime_ms, encode_envelope, longest_lifetime_ms
from fleettrio.wire.kinds import span_text
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Questions",)


class Questions:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        live: Live,
        ledger: Ledger,
        turns: Turns,
        step: Callable[[Entity], Step],
        body_limit: int,
    ) -> None:
        self._me = me
        self._roster = roster
        self._live = live
        self._ledger = ledger
        self._turns = turns
        self._step = step
        self._body_limit = body_limit
        self.take_question: Callable[[VerifiedEnvelope, Gid, Now], list[Action]]
        """A question to a neighbour (`asked`)."""

    def ask(self, event: AskAsked, now: Now) -> list[Action]:
        sender = self._roster.entities.get(event.sender)
        if sender is None:
            return [Fail(event.call, FAILED, "no-identity", "you are not attached any more", "fleettrio attach")]
        target = self._roster.resolve(event.to)
        if isinstance(target, UnknownRecipient):
            return [Fail(event.call, FAILED, "no-such-recipient", target.message, target.hint)]
        if target.gid == sender.gid:
            text = "you cannot ask yourself: nobody else would answer"
            return [Fail(event.call, USAGE, "own-question", text, "`fleettrio list` shows whom you can ask")]
        if refused := self._why_not(event) or self._live.refuse(event.call, Kind.ASK, target.host, now):
            return [refused]
        step = self._step(sender)
        envelope = message(
            self._me,
            Kind.ASK,
            sender,
            target.gid,
            msg_id=event.msg_id,
            trace_id=step.trace_id or event.trace_id,
            expires_in_ms=event.expires_in_ms or default_lifetime_ms(Kind.ASK),
            now=now,
            depth=step.depth,
            turn_id=event.turn_id,
        )
        if self._is_full(target.gid):
            row = sent_row(envelope, encode_envelope(envelope), event.body, target.gid, target.host)
            failed = msgspec.structs.replace(
                row, state=SentState.FAILED, reason=NO_WAITER, detail=BACKLOG, said_by="own"
            )
            return [RecordSent(failed), Resolve(event.call, Accepted((failed,)))]
        self._turns.begin((event.msg_id, target.gid), event, envelope.expires_at, now)
        return self._live.give(
            event.call,
            envelope,
            event.body,
            target.gid,
            target.host,
            lambda asked, now: self.take_question(asked, target.gid, now),
            now,
        )

    def _why_not(self, event: AskAsked) -> Action | None:
        most = longest_lifetime_ms(Kind.ASK)
        if event.expires_in_ms is not None and not 0 < event.expires_in_ms <= most:
            text = f"a question may wait for at most {span_text(most)}"
            return Fail(event.call, USAGE, "lifetime", text, "give a shorter --timeout")
        return unfit(event.call, event.body, self._body_limit, "question")

    def _is_full(self, gid: Gid) -> bool:
        other = self._roster.others.get(gid)
        return self._ledger.is_full(gid) or (other is not None and other.full)
