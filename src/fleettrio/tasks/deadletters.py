"""The reporter: takes the dead letters one by one, tells their senders, sets them aside.

One gateway at a time of the fleet, or of all leads in the coordinator's virtual host (its consumer is exclusive), and
only one that is granted `report` there. The others look again now and then. What becomes of a letter is decided by
`core.deadletters`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import msgspec
import trio

from fleettrio.broker.port import BrokerSession, ConsumerLocked, RawDelivery
from fleettrio.core.deadletters import REPORTED, TOLD_KINDS, report_on
from fleettrio.core.requests import RelayAsked, ReportAsked
from fleettrio.core.rows import Report
from fleettrio.core.topology import DEAD_LETTERS, OPS, REPORTED_KEY
from fleettrio.core.words import REPORT
from fleettrio.errors import MalformedEnvelope
from fleettrio.observe import COUNTERS, failpoint, get_logger
from fleettrio.tasks.realm import Realm
from fleettrio.wire.deaths import Death, read_deaths
from fleettrio.wire.headers import table_for
from fleettrio.wire.signing import Parsed, Refusal, Verifier, parse_delivery

__all__ = ("forwarded", "run_deadletters")

LOOK_AGAIN_S = 10.0
"""Somebody else reports, or this host may not."""
RETRY_S = 2.0
IN_HAND = 32
KEEP_MS = 31 * 24 * 60 * 60 * 1000
CONFIRMED, UNROUTABLE, NACKED = "confirmed", "unroutable", "nacked"

log = get_logger("deadletters")


async def run_deadletters(
    broker: BrokerSession,
    realm: Realm,
    verifier: Verifier,
    body_limit: int,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Report until cancelled. Cancelled in the middle of a letter, the broker brings it again to the next reporter."""
    task_status.started()
    send, letters = trio.open_memory_channel[list[RawDelivery]](2 * IN_HAND)
    while not await _begin(broker, realm, send):  # noqa: ASYNC110 - only the broker knows when it is free
        await trio.sleep(LOOK_AGAIN_S)
    log.info("reporting dead letters", fleet=realm.fleet.fleet_id)
    async for batch in letters:
        for letter in batch:
            while not await _take(letter, broker, realm, verifier, body_limit):  # noqa: ASYNC110 - nor does it say
                await trio.sleep(RETRY_S)


async def _begin(broker: BrokerSession, realm: Realm, send: trio.MemorySendChannel[list[RawDelivery]]) -> bool:
    may_not_read = False
    try:
        if REPORT not in realm.fleet.grants(realm.gateway.settings.me.host):
            return False
        await broker.consume(DEAD_LETTERS, prefetch=IN_HAND, deliveries=send)
    except ConsumerLocked as locked:
        may_not_read = "exclusive" not in str(locked)  # else somebody else reports
        log.debug("not the reporter", reason=str(locked))
        return False
    finally:
        if realm.session is not None:
            realm.session = msgspec.structs.replace(realm.session, reports_in_vain=may_not_read)
    return True


async def _take(letter: RawDelivery, broker: BrokerSession, realm: Realm, verifier: Verifier, body_limit: int) -> bool:
    """One letter: told, moved, acknowledged, in that order. False when the broker did not confirm a step."""
    parsed = parse_delivery(letter.headers, letter.body, body_limit=body_limit)
    death = next(iter(read_deaths(letter.headers.x_death)), None)
    distrust = _distrust(parsed, verifier)
    if not distrust and isinstance(parsed, Parsed) and parsed.envelope.kind not in TOLD_KINDS:
        COUNTERS.count("dead", parsed.envelope.kind)
        broker.ack(letter.tag)
        return True
    report = None
    if not distrust and isinstance(parsed, Parsed):
        report = report_on(parsed, death, realm.fleet)
    COUNTERS.count("dead", distrust or (death.reason if death else "unknown"))
    if report is not None and death is not None and not await _is_known(report, death, realm):
        call = realm.calls.new()
        await realm.handle(ReportAsked(call, report))
        verdict = await realm.calls.result(call)
        if verdict in (CONFIRMED, UNROUTABLE):
            log.info("dead letter told", msg_id=report.msg_id, host=report.host, reason=report.reason)
        else:
            log.warning("dead letter not told", msg_id=report.msg_id, host=report.host, reason=verdict)
            if verdict != NACKED:
                return False
    failpoint("D1-reported")
    why = f"{distrust or (death.reason if death else 'unknown')} {death.queue if death else '-'}"
    headers = _set_aside(letter, {"dead": f"{why} {realm.clock.now().wall} {realm.gateway.settings.me.host}"})
    call = realm.calls.new()
    await realm.handle(RelayAsked(call, OPS, REPORTED_KEY, True, KEEP_MS, headers, letter.body))
    if await realm.calls.result(call) != CONFIRMED:
        return False
    broker.ack(letter.tag)
    return True


def _distrust(parsed: Parsed | Refusal, verifier: Verifier) -> str:
    """Why nobody can say whose it is; empty for a good signature of a host of the fleet."""
    if isinstance(parsed, Refusal):
        return parsed.reason
    return verifier.distrust(parsed)


async def _is_known(report: Report, death: Death, realm: Realm) -> bool:
    """Its recipient is here and has it: then our word is what became of it, whatever somebody put among the dead.

    Or told, and not moved: a reporter died in between, or the broker did not take it. The journal knows. A death after
    that, by the broker's clock, is another one: the message was sent again, and died again.
    """
    (row,) = await realm.store.known([(report.msg_id, realm.kept_as(report.gid))])
    if row is not None:
        return True
    lines = await realm.store.journal([report.msg_id])
    return any(line.what == REPORTED and line.gid == report.gid and line.at >= death.at for line in lines)


def _set_aside(letter: RawDelivery, hints: Mapping[str, str]) -> Mapping[str, bytes | str]:
    """With what a letter is set aside. Where there is no room for the hints, what was signed goes without them; what is
    more than any message may have was never read as one: of that the hints alone are kept, and the body.
    """
    for said in (hints, None):
        with contextlib.suppress(MalformedEnvelope):
            return forwarded(letter, said)
    return hints


def forwarded(letter: RawDelivery, hints: Mapping[str, str] | None = None) -> dict[str, bytes | str]:
    """The header table of a letter for its next place: what was signed, verbatim, and hints for people.

    Raises `MalformedEnvelope` for more than fits.
    """
    headers = letter.headers
    table = table_for(
        headers.fleet or b"", headers.sig or b"", headers.proof or b"", hop=headers.hop or b"", hints=hints
    )
    return {name: value for name, value in table.items() if value}
