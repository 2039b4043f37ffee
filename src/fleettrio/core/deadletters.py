"""Dead letters: what the broker set aside instead of delivering it, and who is told.

A message that expired on its queue, was pushed out of it, or came back too often lands in `fleet.dlq`. One gateway that
is granted `report` takes it from there, tells the host that signed it, and moves it to `fleet.dlq.reported`. In the
coordinator's virtual host it is the same, by the coordinator's fleet file: both realms (`coordination`) have this.

Rules:
1. Signature and host are checked, expiry is not: an expired message is what this is about. What cannot be trusted is
   moved, and nobody is told of it.
2. Told is the host that signed it, once, with the leaf: FAILED `expired`, `overflow` or `delivery-limit`. A rejected
   message was told by whoever refused it. The recipient's own word counts more than this (`words`, `said`).
3. Only what somebody waits for is told and kept; other kinds are acknowledged and counted.
4. Told first, moved then, acknowledged last. A crash in between tells nothing twice: what was told is in the journal.
   Sent again and dead again, it is told again.
5. No host holds up the others' letters: for one whose control queue is full it is moved untold. That host asks for
   what became of its open messages when it is back.
"""

from __future__ import annotations

from fleettrio.core.actions import Action, Note, Relay, Resolve
from fleettrio.core.compose import Identity, control, gateway_of
from fleettrio.core.link import ForCall, Link
from fleettrio.core.requests import RelayAsked, ReportAsked
from fleettrio.core.rows import Report
from fleettrio.core.rules import Rules
from fleettrio.core.topology import lead_key
from fleettrio.ids import Gid, HostId, Now
from fleettrio.wire.bodies import Failed
from fleettrio.wire.deaths import Death
from fleettrio.wire.envelope import Kind
from fleettrio.wire.fleet import Fleet
from fleettrio.wire.gids import is_gid
from fleettrio.wire.signing import Parsed

__all__ = ("DEATHS", "REPORTED", "TOLD_KINDS", "DeadLetters", "report_on")

REPORTED = "dead-letter"
"""What the journal calls it."""
TOLD_KINDS = frozenset({Kind.SEND, Kind.REPLY, Kind.BROADCAST, Kind.COORD, Kind.ASK, Kind.SPAWN, Kind.STOP})
_REASONS = {"expired": "expired", "maxlen": "overflow", "delivery_limit": "delivery-limit"}
"""How the broker calls a death → how its sender is told. `rejected` is told by the refuser."""
DEATHS = frozenset(_REASONS.values())
"""Reasons of a FAILED that only a reporter gives: who has the message says how it ended in other words."""


def report_on(item: Parsed, death: Death | None, fleet: Fleet) -> Report | None:
    """Whom to tell of an authentic dead letter of `fleet`; None: nobody waits to hear of this one."""
    envelope = item.envelope
    if death is None or envelope.kind not in TOLD_KINDS or death.reason not in _REASONS:
        return None
    gid = _recipient(death.queue, envelope.to, fleet)
    if gid is None:
        return None
    return Report(
        host=envelope.host,
        msg_id=envelope.msg_id,
        gid=gid,
        leaf=item.leaf,
        trace_id=envelope.trace_id,
        reason=_REASONS[death.reason],
        detail=f"in {death.queue[:120]}",
    )


def _recipient(queue: str, to: str, fleet: Fleet) -> Gid | None:
    """Whose queue it died in; None for a queue that is not the one it was addressed to: a copy says nothing of it.

    Where it died may be made up, by whoever puts a copy among the dead himself.
    """
    kind, _, rest = queue.partition(".")
    name = rest.partition(".")[0]
    match kind:
        case "control" if rest == to:
            return gateway_of(fleet.fleet_id, HostId(rest))
        case "lead" if lead_key(name) == to and (host := fleet.host_of_lead(name)):
            return gateway_of(fleet.fleet_id, host)
        case "agent" if is_gid(name) and (name == to or to.startswith("broadcast.")):
            return Gid(name)
    return None


class DeadLetters:
    def __init__(self, me: Identity, link: Link) -> None:
        self._me = me
        self._link = link
        self.rules: Rules = {ReportAsked: self._report, RelayAsked: self._relay}

    def _report(self, event: ReportAsked, now: Now) -> list[Action]:
        """Tell it; the call ends with the verdict. Once the broker has it, the journal knows: once is enough."""
        report = event.report
        told = Note(REPORTED, report.msg_id, report.gid, report.trace_id, report.host, report.reason, report.detail)
        body = Failed(gid=report.gid, leaf=report.leaf, reason=report.reason, detail=report.detail, at=now.wall)
        notice = control(self._me, Kind.FAILED, report.host, trace_id=report.trace_id, now=now, re=report.msg_id)
        return [self._link.publish(ForCall(event.call, told), notice, body.to_bytes())]

    def _relay(self, event: RelayAsked, now: Now) -> list[Action]:
        """Publish bytes that another host signed, as they are."""
        if not self._link.is_open:
            return [Resolve(event.call, "outcome-unknown")]
        relay = Relay(
            id=self._link.register(ForCall(event.call)),
            exchange=event.exchange,
            routing_key=event.routing_key,
            persistent=event.persistent,
            expiration_ms=event.expiration_ms,
            headers=event.headers,
            body=event.body,
        )
        return [self._link.at_its_broker(relay)]
