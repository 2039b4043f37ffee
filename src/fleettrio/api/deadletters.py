"""The methods of dead letters. They are the broker's: looked through there, and given back as they lay.

Those of the fleet, or of the leads in the coordinator's virtual host. Only a login that may read them there sees them
(`broker permissions --reporter`). One look at a time: what is in hand during a look is in nobody else's.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

import trio

from fleettrio.api.callers import Caller
from fleettrio.api.problems import may_not_read
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.api.schema import base
from fleettrio.api.schema import deadletters as schema
from fleettrio.broker.port import BrokerSession, ConsumerLocked, RawDelivery
from fleettrio.core.compose import exchange_for
from fleettrio.core.link import TRANSIENT
from fleettrio.core.orderwords import order_words
from fleettrio.core.requests import RelayAsked
from fleettrio.core.topology import DEAD_LETTERS, REPORTED_LETTERS
from fleettrio.errors import EXPIRED, FAILED, NO_BROKER, USAGE, SessionLost
from fleettrio.ids import short_id
from fleettrio.local.sanitise import clean, one_line
from fleettrio.perform import Performer
from fleettrio.store.queries import SHORTEST_PART
from fleettrio.tasks.deadletters import forwarded
from fleettrio.tasks.publish import EXPIRY_SLACK_MS
from fleettrio.tasks.realm import CoordinatorRealm, Realm
from fleettrio.wire.envelope import Envelope
from fleettrio.wire.signing import Parsed, parse_delivery

__all__ = ("DeadLetters",)

MOST_LOOKED_AT = 10_000
NO_LIMIT = 2**31
CONFIRMED = "confirmed"


class DeadLetters:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._leads = CoordinatorRealm(performer)
        self._gateway = performer.gateway
        self._looking = trio.Lock()

    def methods(self) -> dict[str, Handler]:
        return {"dlq_list": self.list, "dlq_show": self.show, "dlq_retry": self.retry, "dlq_drop": self.drop}

    async def list(self, params: schema.ListLetters, caller: Caller, connection: Connection) -> schema.DeadLetters:
        _check(caller)
        realm = self._realm(params.coordinator)
        async with self._session(realm) as broker:
            reported = await broker.message_count(REPORTED_LETTERS)
            waiting = await broker.message_count(DEAD_LETTERS)
            found = [self._letter(raw, realm) async for raw in _each(broker, REPORTED_LETTERS, params.limit)]
        return schema.DeadLetters(found, reported or 0, waiting or 0)

    async def show(self, params: schema.ShowLetter, caller: Caller, connection: Connection) -> schema.ShownLetter:
        _check(caller)
        realm = self._realm(params.coordinator)
        async with self._session(realm) as broker:
            raw = await self._find(broker, params.id)
        letter = self._letter(raw, realm)
        asked = order_words(letter.kind, raw.body, self._gateway.roster)
        return schema.ShownLetter(
            letter, raw.body, one_line(asked, 200) or clean(raw.body), self._sentence(letter, realm)
        )

    async def retry(self, params: schema.RetryLetter, caller: Caller, connection: Connection) -> base.Done:
        """The same bytes to the same address once more. Whoever has them already takes no second copy."""
        _check(caller)
        realm = self._realm(params.coordinator)
        async with self._session(realm) as broker:
            raw = await self._find(broker, params.id)
            parsed = self._parsed(raw)
            if parsed is None:
                text = f"{params.id} cannot be read as a message: nobody would take it"
                raise CallError(FAILED, "malformed", text, _command("drop", realm))
            envelope, now = parsed.envelope, self._performer.clock.now().wall
            if envelope.expires_at <= now:
                sender = self._sender(envelope, realm)
                text = f"{short_id(envelope.msg_id)} has expired: nobody may deliver it any more"
                raise CallError(EXPIRED, "expired", text, f"ask {sender} to send it again")
            call = self._performer.calls.new()
            exchange, persistent = exchange_for(envelope.kind), envelope.kind not in TRANSIENT
            left = envelope.expires_at - now + EXPIRY_SLACK_MS
            await realm.handle(RelayAsked(call, exchange, envelope.to, persistent, left, forwarded(raw), raw.body))
            verdict = await self._performer.calls.result(call)
            if verdict != CONFIRMED:
                text = f"{short_id(envelope.msg_id)} was not taken by the broker: {verdict}"
                raise CallError(FAILED, str(verdict), text, "it stays among the dead letters")
            broker.ack(raw.tag)
        return base.Done(f"{short_id(envelope.msg_id)} is on its way again")

    async def drop(self, params: schema.DropLetters, caller: Caller, connection: Connection) -> base.Done:
        _check(caller)
        async with self._session(self._realm(params.coordinator)) as broker:
            if params.id:
                raw = await self._find(broker, params.id)
                broker.ack(raw.tag)
                return base.Done(f"{params.id} is gone")
            count = 0
            async for raw in _each(broker, REPORTED_LETTERS, MOST_LOOKED_AT):
                broker.ack(raw.tag)
                count += 1
        return base.Done("1 dead letter is gone" if count == 1 else f"{count} dead letters are gone")

    # --- inside

    def _realm(self, coordinator: bool) -> Realm:
        leads = self._gateway.coordination
        if coordinator and not leads.is_there:
            raise CallError(USAGE, "no-coordinator", leads.why_not, "`fleettrio config show`: [coordinator]")
        return self._leads if coordinator else self._performer

    @contextlib.asynccontextmanager
    async def _session(self, realm: Realm) -> AsyncIterator[BrokerSession]:
        """The broker to look at; what was taken and not settled lies there again afterwards, in its order."""
        if realm.session is None:
            why = realm.link.why_not() or ("broker-unreachable", "no connection to the broker")
            raise CallError(NO_BROKER, why[0], why[1], "`fleettrio status` shows the broker")
        broker = realm.session.broker
        async with self._looking:
            try:
                yield broker
            except ConsumerLocked:
                raise CallError(FAILED, "not-allowed", *may_not_read(self._gateway, realm is self._leads)) from None
            except SessionLost as lost:
                raise CallError(NO_BROKER, "broker-unreachable", f"the broker went away: {lost}", "try again") from None
            finally:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 5), contextlib.suppress(SessionLost):
                    await broker.release(REPORTED_LETTERS)

    async def _find(self, broker: BrokerSession, ending: str) -> RawDelivery:
        """The one letter whose msgId ends so; it stays in hand."""
        if len(ending) < SHORTEST_PART:
            raise CallError(USAGE, "usage", f"{ending!r} is too short for an id", "give at least its last 4 digits")
        found = []
        async for raw in _each(broker, REPORTED_LETTERS, MOST_LOOKED_AT):
            parsed = self._parsed(raw)
            if parsed is not None and parsed.envelope.msg_id.endswith(ending.lower()):
                found.append((parsed.envelope.msg_id, raw))
        if not found:
            text = f"no dead letter that was set aside ends with {ending!r}"
            raise CallError(FAILED, "no-such-message", text, "fleettrio dlq list")
        if len({msg_id for msg_id, _ in found}) > 1:
            endings = ", ".join(sorted(msg_id[-12:] for msg_id, _ in found)[:6])
            raise CallError(USAGE, "ambiguous", f"{ending!r} is the end of several: {endings}", "give more digits")
        return found[0][1]

    def _parsed(self, raw: RawDelivery) -> Parsed | None:
        parsed = parse_delivery(raw.headers, raw.body, body_limit=NO_LIMIT)
        return parsed if isinstance(parsed, Parsed) else None

    def _sender(self, envelope: Envelope, realm: Realm) -> str:
        """Who sent it, for showing: an agent as far as this host knows it, or the lead of another fleet."""
        if realm is self._leads:
            return self._gateway.coordination.address(envelope.host)
        return self._gateway.roster.address(envelope.sender, envelope.host)

    def _letter(self, raw: RawDelivery, realm: Realm) -> schema.DeadLetter:
        parsed = self._parsed(raw)
        reason, queue, at, _ = [*raw.headers.dead.split(" "), "", "", "", ""][:4]
        envelope = parsed.envelope if parsed else None
        return schema.DeadLetter(
            msg_id=envelope.msg_id if envelope else "",
            short=short_id(envelope.msg_id) if envelope else "?",
            kind=one_line(envelope.kind, 32) if envelope else "?",
            sender=self._sender(envelope, realm) if envelope else "?",
            queue=one_line(queue, 96),
            reason=one_line(reason, 32) or "unknown",
            at=int(at) if at.isdecimal() else 0,
            size=len(raw.body),
            expires_at=envelope.expires_at if envelope else 0,
            trace_id=envelope.trace_id if envelope else "",
            is_reported=True,
        )

    def _sentence(self, letter: schema.DeadLetter, realm: Realm) -> str:
        why = _WHY.get(letter.reason, _not_trusted)(letter)
        if not letter.msg_id:
            return why
        is_over = letter.expires_at <= self._performer.clock.now().wall
        command = _command(f"retry {letter.short}", realm)
        again = f"ask {letter.sender} to send it again" if is_over else f"`{command}` sends it"
        return f"{why}; {again}"


_WHY: dict[str, Callable[[schema.DeadLetter], str]] = {
    "expired": lambda letter: f"it expired in {letter.queue}: nobody consumed that queue in time",
    "rejected": lambda letter: f"the host behind {letter.queue} refused it, and told its sender why",
    "maxlen": lambda letter: f"{letter.queue} was full and pushed it out",
    "delivery_limit": lambda letter: f"it was given back to {letter.queue} too often",
}


def _not_trusted(letter: schema.DeadLetter) -> str:
    return f"nobody can say whose it is ({letter.reason}), so nobody was told"


def _command(does: str, realm: Realm) -> str:
    return f"fleettrio dlq {does}" + (" --coordinator" if isinstance(realm, CoordinatorRealm) else "")


def _check(caller: Caller) -> None:
    if not caller.is_person:
        text = "dead letters are other agents' messages: only a person looks through them"
        raise CallError(FAILED, "not-a-person", text, "run it at a terminal")


async def _each(broker: BrokerSession, queue: str, most: int) -> AsyncIterator[RawDelivery]:
    """The letters of a queue, oldest first; they stay in hand."""
    for _ in range(most):
        raw = await broker.get(queue)
        if raw is None:
            return
        yield raw
