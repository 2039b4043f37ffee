"""Whom a send is for; or why it cannot be sent, as the end of its call."""

from __future__ import annotations

from fleettrio.core import bodies
from fleettrio.core.actions import Fail
from fleettrio.core.claims import no_such_arbiter, split_key
from fleettrio.core.link import Link
from fleettrio.core.requests import SendAsked
from fleettrio.core.roster import Roster, Target, UnknownRecipient
from fleettrio.errors import FAILED, NO_BROKER, USAGE
from fleettrio.ids import Now
from fleettrio.wire.envelope import longest_lifetime_ms
from fleettrio.wire.kinds import span_text

__all__ = ("Recipients", "nobody")


def nobody(call: int) -> Fail:
    """The end of a call of someone who is gone."""
    return Fail(call, FAILED, "no-identity", "you are not attached any more", "fleettrio attach")


class Recipients:
    def __init__(self, roster: Roster, link: Link, body_limit: int) -> None:
        self._roster = roster
        self._link = link
        self._body_limit = body_limit

    def of(self, event: SendAsked) -> list[Target] | Fail:
        """As far as that can be known before its time."""
        if event.sender not in self._roster.entities:
            return nobody(event.call)
        if unfit := self.unfit(event.call, event.body) or self._no_arbiter(event):
            return unfit
        targets: list[Target] = []
        for address in event.to:
            target = self._roster.resolve(address)
            if isinstance(target, UnknownRecipient):
                return Fail(event.call, FAILED, "no-such-recipient", target.message, target.hint)
            if text := self._roster.why_not_spoken(target.host, event.kind):
                return Fail(event.call, FAILED, "unknown-kind", text, f"update fleettrio on {target.host}")
            targets.append(target)
        return self._lives_too_long(event, targets) or targets

    def silent(self, call: int, targets: list[Target], now: Now) -> Fail | None:
        """For what is to be sent only to hosts that are heard; nothing is known while a session settles."""
        if self._link.is_settling(now):
            return None
        host = next((target.host for target in targets if self._roster.is_silent(target.host, now.wall)), None)
        if host is None:
            return None
        text = f"{host} is not heard, and this send is live only"
        return Fail(call, NO_BROKER, "host-silent", text, "without --live it waits for the host")

    def unfit(self, call: int, body: bytes) -> Fail | None:
        return bodies.unfit(call, body, self._body_limit)

    def _no_arbiter(self, event: SendAsked) -> Fail | None:
        arbiter = split_key(event.claim)[0] if event.claim else None
        if arbiter is None or self._roster.is_of_fleet(arbiter):
            return None
        hint = "name a host of `fleettrio host list`, or leave the colon away: then this host decides"
        return Fail(event.call, USAGE, "no-such-host", no_such_arbiter(arbiter), hint)

    def _lives_too_long(self, event: SendAsked, targets: list[Target]) -> Fail | None:
        if event.expires_in_ms is None:
            return None
        most = longest_lifetime_ms(event.kind, event.when)
        if 0 < event.expires_in_ms <= most:
            return None
        text = f"a {event.kind} with when={event.when} to {targets[0].name} may live at most {span_text(most)}"
        return Fail(event.call, USAGE, "lifetime", text, "give a shorter --expires")
