"""The publisher and its confirms: sign, record, hand over, in that order; then hear what became of it.

A batch is what waits, up to 256, under one signature and in one commit; a single message is a batch of one, and nothing
waits for a batch to fill.
"""

from __future__ import annotations

import dataclasses
import os

import trio

from fleettrio.broker.port import BrokerSession, PublishVerdict, RawPublish
from fleettrio.core.actions import Publish, RecordSent, StoreAction
from fleettrio.core.events import PublishHanded, PublishNotHanded, VerdictGiven
from fleettrio.core.link import ForNotice, ForSent, LinkState
from fleettrio.errors import StoreError
from fleettrio.ids import Now
from fleettrio.observe import failpoint, get_logger
from fleettrio.perform import Performer
from fleettrio.wire.envelope import encode_envelope
from fleettrio.wire.gids import new_msg_id
from fleettrio.wire.headers import table_for
from fleettrio.wire.signing import MAX_BATCH, Signer

__all__ = ("run_publish", "run_verdicts", "tell_verdicts")

EXPIRY_SLACK_MS = 60_000
CONTENT_TYPE = "application/octet-stream"

log = get_logger("publish")


async def run_publish(
    requests: trio.MemoryReceiveChannel[Publish],
    broker: BrokerSession,
    performer: Performer,
    signer: Signer,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Publish until cancelled. Cancelled, what was not handed over is reported so; a batch under way is finished."""
    task_status.started()
    try:
        async for first in requests:
            batch = [first]
            while len(batch) < MAX_BATCH:
                try:
                    batch.append(requests.receive_nowait())
                except trio.WouldBlock:
                    break
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 10):
                await _publish(batch, broker, performer, signer)
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await _not_handed(requests, performer)


async def _publish(batch: list[Publish], broker: BrokerSession, performer: Performer, signer: Signer) -> None:
    if performer.gateway.link.state is LinkState.BLOCKED:
        detail = performer.gateway.link.detail
        lost = [PublishNotHanded(p.id, "broker-blocked", detail) for p in batch if p.sent]  # control may go on
        batch = [p for p in batch if not p.sent]
        await performer.handle(*lost)
        if not batch:
            return
    now = performer.clock.now()
    batch = [_with_msg_id(publish, now) for publish in batch]
    messages = [
        (publish.sent.header if publish.sent else encode_envelope(publish.envelope), publish.body) for publish in batch
    ]
    signed = signer.sign(messages)
    records: list[StoreAction] = []
    for publish, (sig, proof) in zip(batch, signed, strict=True):
        if publish.sent:
            records.append(RecordSent(dataclasses.replace(publish.sent, sig=sig, proof=proof)))
        if publish.keyed:
            records.append(publish.keyed)
    if records:
        try:
            await performer.store.submit(records, now.wall).done()
        except StoreError as error:
            await performer.handle(*(PublishNotHanded(p.id, "store", str(error)) for p in batch))
            return
        failpoint("S1-recorded")
    broker.publish(
        [
            _raw(publish, header, sig, proof, signer, now)
            for publish, (header, _), (sig, proof) in zip(batch, messages, signed, strict=True)
        ]
    )
    await performer.handle(PublishHanded(tuple(publish.id for publish in batch)))


def _with_msg_id(publish: Publish, now: Now) -> Publish:
    if publish.envelope.msg_id:
        return publish
    envelope = dataclasses.replace(publish.envelope, msg_id=new_msg_id(now.wall, os.urandom(10)))
    return dataclasses.replace(publish, envelope=envelope)


def _raw(publish: Publish, header: bytes, sig: bytes, proof: bytes, signer: Signer, now: Now) -> RawPublish:
    envelope = publish.envelope
    hints = {
        "fleet-id": str(signer.fleet_id),
        "kind": str(envelope.kind),
        "msgId": str(envelope.msg_id),
        "traceId": str(envelope.trace_id),
        "from": str(envelope.sender),
        "to": str(envelope.to),
    }
    return RawPublish(
        id=publish.id,
        exchange=publish.exchange,
        routing_key=envelope.to,
        mandatory=publish.mandatory,
        persistent=publish.persistent,
        expiration_ms=max(0, envelope.expires_at - now.wall) + EXPIRY_SLACK_MS,
        content_type=CONTENT_TYPE,
        headers=table_for(header, sig, proof, hints=hints),
        body=publish.body,
    )


async def _not_handed(requests: trio.MemoryReceiveChannel[Publish], performer: Performer) -> None:
    lost = []
    while True:
        try:
            lost.append(PublishNotHanded(requests.receive_nowait().id, "broker-unreachable", "the session ended"))
        except (trio.WouldBlock, trio.EndOfChannel):
            break
    if lost:
        await performer.handle(*lost)


async def run_verdicts(
    verdicts: trio.MemoryReceiveChannel[PublishVerdict],
    performer: Performer,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Tell the core every verdict, until the border closes its end. Cancelled, open ones stay `outcome-unknown`."""
    task_status.started()
    async for first in verdicts:
        await tell_verdicts(verdicts, performer, first)


async def tell_verdicts(
    verdicts: trio.MemoryReceiveChannel[PublishVerdict], performer: Performer, *first: PublishVerdict
) -> None:
    """Tell the core the verdicts that are there now, `first` and all that wait, as one batch. Finished if cancelled."""
    batch = list(first)
    while True:
        try:
            batch.append(verdicts.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel):
            break
    if batch:
        _failpoints(batch, performer)
        await performer.handle(*(VerdictGiven(v.id, str(v.verdict), v.detail) for v in batch))


def _failpoints(batch: list[PublishVerdict], performer: Performer) -> None:
    for verdict in batch:
        purpose = performer.gateway.link.purpose(verdict.id)
        if isinstance(purpose, ForSent):
            failpoint("S2-written")
        elif isinstance(purpose, ForNotice):
            failpoint("R8-published")
