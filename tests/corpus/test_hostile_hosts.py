"""The hostile bodies through real hosts: signed and stored byte for byte, harmless where they land."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from fleettrio.api.handing import Handing
from fleettrio.api.rpc import Connection
from fleettrio.broker.memory import MemoryBroker
from fleettrio.core.topology import InboxQueue
from fleettrio.local.frame import MARK, unframe
from fleettrio.local.sanitise import clean
from fleettrio.wire.headers import RawHeaders
from fleettrio.wire.signing import Parsed, VerifiedEnvelope, parse_delivery
from tests.core.builders import agent
from tests.core.hands import ALL
from tests.corpus.hostile import HOSTILE, frame_lookalikes, leaks
from tests.tasks.shell import running, two, until

READABLE = {name: body for name, body in HOSTILE.items() if clean(body).strip()}
HOOK_ROOM = 9_000


def harmless(framed: str, nonce: str) -> None:
    """Every line is the daemon's, by this nonce, or marked as the body's."""
    assert leaks(framed) == []
    tag = f"[fleettrio {nonce}] "
    lines = framed.split("\n")
    assert lines[0].startswith(f"{tag}message ")
    assert lines[-1].startswith(f"{tag}end of ")
    assert [line for line in lines if not line.startswith((tag, MARK))] == []
    assert frame_lookalikes(line for line in lines if not line.startswith((tag, MARK))) == []


async def test_across_hosts_bytes_and_signature_stay_and_what_is_typed_is_harmless(tmp_path: Path) -> None:
    async with two(tmp_path, MemoryBroker()) as (alpha, beta):
        worker = beta.gid("worker")
        for name, body in READABLE.items():
            msg_id, _ = await alpha.send("worker@beta", body)
            pane = beta.panes[worker]
            await until(lambda: pane.texts, f"{name} in the pane")  # noqa: B023
            text = pane.texts.pop()
            harmless(text.framed, text.nonce)
            assert unframe(text.framed) == clean(body), name
            stored = await beta.store.message(msg_id, worker)
            assert stored is not None
            assert stored.body == body, name
            headers = RawHeaders(fleet=stored.header, sig=stored.sig, proof=stored.proof or None)
            parsed = parse_delivery(headers, stored.body, body_limit=2**18)
            assert isinstance(parsed, Parsed), name
            owner = InboxQueue(worker, ())
            (judged,) = beta.verifier.judge([parsed], [owner], [None], beta.performer.clock.now().wall)
            assert isinstance(judged, VerifiedEnvelope), name


async def test_what_a_hook_hands_out_is_harmless_and_fits(tmp_path: Path) -> None:
    worker = agent("worker", "beta")
    async with running("beta", tmp_path, MemoryBroker(), [worker], connected=False, deliver=False) as beta:
        handing, hook = Handing(beta.performer), Connection(pid=1, uid=1)
        for name, body in READABLE.items():
            await beta.send("worker", body)
            with trio.fail_after(90):
                taken = await handing.take(
                    beta.gid("worker"), whens=ALL, room=HOOK_ROOM, most=20, via="hook", connection=hook
                )
            assert len(taken) == 1, name
            (handed,) = taken
            harmless(handed.text.framed, handed.nonce)
            assert len(handed.text.framed) <= HOOK_ROOM, name


@pytest.mark.parametrize("name", sorted(set(HOSTILE) - set(READABLE)))
async def test_a_body_with_nothing_to_read_is_delivered_as_an_empty_one(tmp_path: Path, name: str) -> None:
    async with running("beta", tmp_path, MemoryBroker(), [agent("worker", "beta")], connected=False) as beta:
        await beta.send("worker", HOSTILE[name])
        pane = beta.panes[beta.gid("worker")]
        await until(lambda: pane.texts, "it is in the pane")
        harmless(pane.texts[0].framed, pane.texts[0].nonce)
