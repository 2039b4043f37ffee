"""Pings: is a host there, how far is it, how does its clock differ from ours."""

from __future__ import annotations

import msgspec

from fleettrio.core.actions import Action, Fail, RecordPeer, Resolve
from fleettrio.core.calls import PongHeard
from fleettrio.core.compose import Identity, control
from fleettrio.core.link import ForControl, Link
from fleettrio.core.requests import PingAsked
from fleettrio.core.roster import Roster
from fleettrio.core.rules import Rules
from fleettrio.errors import NO_BROKER
from fleettrio.ids import HostId, Now, Seconds, TraceId, WallMs
from fleettrio.wire.bodies import PingBody, PongBody
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Pings",)


class _Ping(msgspec.Struct, frozen=True):
    call: int
    host: HostId
    sent_at: Seconds


class Pings:
    def __init__(self, me: Identity, link: Link, roster: Roster, *, version: str) -> None:
        self._me = me
        self._link = link
        self._roster = roster
        self._version = version
        self._pings: dict[int, _Ping] = {}
        self.rules: Rules = {PingAsked: self._asked}

    def _asked(self, event: PingAsked, now: Now) -> list[Action]:
        if why := self._link.why_not():
            return [Fail(event.call, NO_BROKER, why[0], why[1])]
        at = max([now.wall - 1, *self._pings]) + 1
        self._pings[at] = _Ping(event.call, event.host, now.mono)
        trace_id = TraceId(event.msg_id.replace("-", ""))
        envelope = control(self._me, Kind.PING, event.host, trace_id=trace_id, now=now)
        return [self._link.publish(ForControl(), envelope, PingBody(at=WallMs(at)).to_bytes())]

    def on_ping(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        envelope = message.envelope
        body = PongBody(
            at=PingBody.from_bytes(message.body).at,
            version=self._version,
            offset=now.wall - envelope.ts,
            key_gen=self._me.key_gen,
            trust_rev=self._roster.trust_rev,
        )
        answer = control(self._me, Kind.PONG, envelope.host, trace_id=envelope.trace_id, now=now)
        return [self._link.publish(ForControl(), answer, body.to_bytes())]

    def on_pong(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        body = PongBody.from_bytes(message.body)
        ping = self._pings.get(body.at)
        if ping is None or ping.host != message.envelope.host:
            return []
        del self._pings[body.at]
        rtt_ms = (now.mono - ping.sent_at) * 1000
        offset_ms = message.envelope.ts - now.wall + round(rtt_ms / 2)
        return [*self.taken_by(ping.host), Resolve(ping.call, PongHeard(ping.host, rtt_ms, body.version, offset_ms))]

    def taken_by(self, host: HostId) -> list[Action]:
        """`host` took something of ours: whatever it once refused us for is mended."""
        peer = self._roster.peers.get(host)
        return [RecordPeer(self._roster.note_refusal(host, by_them=""))] if peer and peer.refuses_us else []

    def refused(self, host: HostId, reason: str, now: Now) -> list[Action]:
        """A refusal by a host that we ping is as good as its answer."""
        actions: list[Action] = []
        for at in [at for at, ping in self._pings.items() if ping.host == host]:
            ping = self._pings.pop(at)
            rtt_ms = (now.mono - ping.sent_at) * 1000
            actions.append(Resolve(ping.call, PongHeard(host, rtt_ms, "", 0, refused=reason)))
        return actions

    def end(self, call: int) -> None:
        self._pings = {at: ping for at, ping in self._pings.items() if ping.call != call}
