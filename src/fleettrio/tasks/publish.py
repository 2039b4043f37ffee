"""The publisher and its confirms: sign, record, hand over, in that order; then hear what became of it.

A batch is what waits, up to 256, under one signature and in one commit; a single message is a batch of one, and nothing
waits for a batch to fill.
"""

from __future__ import annotations

import os

import msgspec
import trio

from fleettrio._accel import leaf_of
from fleettrio.broker.port import CONTENT_TYPE, BrokerSession, PublishVerdict, RawPublish
from fleettrio.core.actions import Publish, RecordSent, StoreAction
from fleettrio.core.events import PublishHanded, PublishNotHanded, VerdictGiven
from fleettrio.core.link import ForNotice, ForSent, LinkState
from fleettrio.errors import StoreError
from fleettrio.ids import Now
from fleettrio.observe import FAILS, failpoint, get_logger
from fleettrio.perform import COMMIT_LIMIT_S
from fleettrio.tasks.realm import Realm
from fleettrio.wire.envelope import encode_envelope
from fleettrio.wire.gids import new_msg_id
from fleettrio.wire.headers import table_for
from fleettrio.wire.signing import MAX_BATCH, Signer

__all__ = ("ToPublish", "publish_batch", "run_publish", "run_verdicts", "tell_verdicts")

EXPIRY_SLACK_MS = 60_000

log = get_logger("publish")


class ToPublish:
    """What waits for the publisher, bounded; it is taken as batches, and costs nothing for each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: list[Publish] = []
        self._came = trio.Event()
        self._is_closed = False

    def send_nowait(self, publish: Publish) -> None:
        """Add one. Raises `WouldBlock` when there are too many, `BrokenResourceError` when nobody takes any more."""
        if self._is_closed:
            raise trio.BrokenResourceError
        if len(self._waiting) >= self._most:
            raise trio.WouldBlock
        self._waiting.append(publish)
        self._came.set()

    async def batch(self, most: int) -> list[Publish]:
        """What is there now, at most so many, once there is something. Cancelled, nothing is taken."""
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            self._came = trio.Event()
            await self._came.wait()
        taken, self._waiting = self._waiting[:most], self._waiting[most:]
        return taken

    def close(self) -> list[Publish]:
        """Take no more; what is there still."""
        self._is_closed = True
        return self._waiting


async def run_publish(
    requests: ToPublish,
    broker: BrokerSession,
    realm: Realm,
    signer: Signer,
    *,
    most: int | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Publish until cancelled, at most `most` under one signature, if given. Cancelled, what was not handed over is
    reported so; a batch under way is finished.
    """
    limit = MAX_BATCH if most is None else most
    task_status.started()
    try:
        while True:
            batch = await requests.batch(limit)
            with trio.CancelScope(shield=True, deadline=trio.current_time() + COMMIT_LIMIT_S) as disk:
                await publish_batch(batch, broker, realm, signer)
            if disk.cancelled_caught:  # as with any list (`perform`, rule 5); else its senders would wait for ever
                raise StoreError(f"the disk did not answer for {COMMIT_LIMIT_S:.0f} s", hint="look at dmesg")
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            lost = [PublishNotHanded(p.id, "broker-unreachable", "the session ended") for p in requests.close()]
            if lost:
                await realm.handle(*lost)


async def publish_batch(batch: list[Publish], broker: BrokerSession, realm: Realm, signer: Signer) -> None:
    """Sign, record, hand over. Shielded by its caller: a batch that began is finished."""
    if realm.link.state is LinkState.BLOCKED:
        detail = realm.link.detail
        lost = [PublishNotHanded(p.id, "broker-blocked", detail) for p in batch if p.sent]  # control may go on
        batch = [p for p in batch if not p.sent]
        await realm.handle(*lost)
        if not batch:
            return
    now = realm.clock.now()
    batch = [publish if publish.sent else _with_msg_id(publish, now) for publish in batch]
    headers = [publish.sent[0].header if publish.sent else encode_envelope(publish.envelope) for publish in batch]
    leaves = [p.sent[0].leaf if p.sent else leaf_of(header, p.body) for p, header in zip(batch, headers, strict=True)]
    signed = signer.sign_leaves(leaves)
    records: list[StoreAction] = []
    for publish, (sig, proof) in zip(batch, signed, strict=True):
        records += [RecordSent(msgspec.structs.replace(row, sig=sig, proof=proof)) for row in publish.sent]
        if publish.keyed:
            records.append(publish.keyed)
    if records:
        try:
            await realm.store.submit(records, now.wall).done()
        except StoreError as error:
            await realm.handle(*(PublishNotHanded(p.id, "store", str(error)) for p in batch))
            return
        failpoint("S1-recorded")
    broker.publish(
        [
            _raw(publish, header, sig, proof, signer, now)
            for publish, header, (sig, proof) in zip(batch, headers, signed, strict=True)
        ]
    )
    await realm.handle(PublishHanded(tuple(publish.id for publish in batch)))


def _with_msg_id(publish: Publish, now: Now) -> Publish:
    if publish.envelope.msg_id:
        return publish
    envelope = msgspec.structs.replace(publish.envelope, msg_id=new_msg_id(now.wall, os.urandom(10)))
    return msgspec.structs.replace(publish, envelope=envelope)


def _raw(publish: Publish, header: bytes, sig: bytes, proof: bytes, signer: Signer, now: Now) -> RawPublish:
    envelope = publish.envelope
    hints = {
        "fleet-id": signer.fleet_id,
        "kind": str(envelope.kind),
        "msgId": envelope.msg_id,
        "traceId": envelope.trace_id,
        "from": envelope.sender,
        "to": envelope.to,
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


async def run_verdicts(
    verdicts: trio.MemoryReceiveChannel[list[PublishVerdict]],
    realm: Realm,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Tell the core every verdict, until the border closes its end. Cancelled, open ones stay `outcome-unknown`."""
    task_status.started()
    async for first in verdicts:
        await tell_verdicts(verdicts, realm, *first)


async def tell_verdicts(
    verdicts: trio.MemoryReceiveChannel[list[PublishVerdict]], realm: Realm, *first: PublishVerdict
) -> None:
    """Tell the core the verdicts that are there now, `first` and all that wait, as one batch. Finished if cancelled."""
    batch = list(first)
    while True:
        try:
            batch += verdicts.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            break
    if batch:
        if FAILS:
            _failpoints(batch, realm)
        await realm.handle(*(VerdictGiven(v.id, str(v.verdict), v.detail) for v in batch))


def _failpoints(batch: list[PublishVerdict], realm: Realm) -> None:
    for verdict in batch:
        purpose = realm.link.purpose(verdict.id)
        if isinstance(purpose, ForSent):
            failpoint("S2-written")
        elif isinstance(purpose, ForNotice):
            failpoint("R8-published")
