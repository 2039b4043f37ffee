"""Hundreds of briefs while the broker is killed twice and their host once: each has an outcome, none comes twice."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from fleettrio.api.schema import Inbox, InboxRows, MessageView, Retry, Send, SendResult
from fleettrio.clients.client import CallFailed, Client
from fleettrio.testing.agents.room import StandIn, TmuxRoom
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.waiting import wait_until
from tests.faults.pair import ROUNDS, Pair

BRIEFS = int(os.environ.get("FLEETTRIO_BRIEFS", "500" if ROUNDS >= 20 else "150"))
PER_SECOND = 50
WORKERS = ("w1", "w2", "w3", "w4", "w5")
NOT_YET = {"accepted", "written", "outcome-unknown", "waiting", "unknown"}
PUT_IN = {"injected", "ended"}
DELIVERED = PUT_IN | {"unconfirmed"}
"""Words for what was typed."""
SETTLE_S = 600.0
STUCK_S = 10.0
"""So long no text of a living daemon stands in a composer before its Enter."""
RETRY_S = 0.2
NO_BROKER = 8
QUESTIONS_S = 5.0
"""What a QUERY and its answer get before the sender helps."""


class Stream:
    """The briefs to one worker, in order, each when its turn comes; one that fails is sent again until it goes out."""

    def __init__(self, pair: Pair, worker: str, numbers: range) -> None:
        self._pair = pair
        self.worker = worker
        self._numbers = numbers
        self.first: dict[str, MessageView] = {}
        """Message id → how it stood when `send` returned."""
        self.bodies: dict[str, bytes] = {}

    def run(self, began: float, sent: threading.Semaphore) -> None:
        with self._pair.alpha.client(self._pair.person) as client:
            for number in self._numbers:
                _wait_for(began + number / PER_SECOND)
                body = f"brief {number} for {self.worker}".encode()
                result: SendResult = client.call("send", Send(to=[f"{self.worker}@beta"], body=body))
                view = result.messages[0]
                self.first[view.msg_id] = view
                self.bodies[view.msg_id] = body
                while view.state == "failed":
                    _wait_for(time.monotonic() + RETRY_S)
                    view = _retried(client, view, body)
                sent.release()


def _retried(client: Client, view: MessageView, body: bytes) -> MessageView:
    """The same message once more; how it stands then. Without a broker it is not even tried."""
    try:
        result: SendResult = client.call("retry", Retry(view.msg_id, body))
    except CallFailed as error:
        if error.exit_code != NO_BROKER:
            raise
        return view
    return result.messages[0]


def _wait_for(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


@pytest.fixture
def crowd(broker: BrokerNode) -> Iterator[tuple[Pair, dict[str, StandIn]]]:
    with TmuxRoom() as room, Fleet(broker, "alpha", "beta", env=room.env) as fleet:
        pair = Pair(fleet, room)
        yield pair, {name: pair.hire(name) for name in WORKERS}


def test_every_brief_has_an_outcome_and_none_is_typed_twice(
    crowd: tuple[Pair, dict[str, StandIn]], tell: Callable[[str], None]
) -> None:
    pair, workers = crowd
    streams = [Stream(pair, name, range(place, BRIEFS, len(WORKERS))) for place, name in enumerate(WORKERS)]
    sent = threading.Semaphore(0)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(streams)) as pool:
        running = [pool.submit(stream.run, began, sent) for stream in streams]
        for strike in ("broker", "beta", "broker"):
            for _ in range(BRIEFS // 4):
                assert sent.acquire(timeout=300)
            if strike == "broker":
                _kill_broker(pair)
            else:
                _kill_beta(pair, workers.values())
        for sending in running:
            sending.result()
    sent_after = time.monotonic() - began

    pair.alpha.wait_broker("connected")
    pair.fleet.wait_heard()
    outcomes = _settled(pair, streams, list(workers.values()))
    at_first = collections.Counter(view.state for stream in streams for view in stream.first.values())
    tell(
        f"{BRIEFS} briefs sent in {sent_after:.1f} s ({dict(at_first)} at the first attempt), "
        f"settled after {time.monotonic() - began:.1f} s: {dict(collections.Counter(outcomes.values()))}"
    )
    assert len(outcomes) == BRIEFS
    for stream in streams:
        turns = workers[stream.worker].turns()
        typed = [next(m for m in stream.bodies if f" {m[-8:]} from " in turn) for turn in turns]
        assert len(set(typed)) == len(typed), "a brief was typed twice"
        assert {m for m in stream.bodies if outcomes[m] in PUT_IN} <= set(typed), "a brief was lost"
        denied = {m: outcomes[m] for m in typed if outcomes[m] not in DELIVERED}
        assert not denied, f"typed to {stream.worker}, and something else is said of it: {denied}"
        confirmed = [m for m, view in stream.first.items() if view.state in ("waiting", "injected")]
        assert [m for m in typed if m in confirmed] == [m for m in confirmed if m in typed], "out of order"


def _kill_broker(pair: Pair) -> None:
    pair.broker.kill()
    pair.broker.start()


def _kill_beta(pair: Pair, workers: Iterable[StandIn]) -> None:
    pair.beta.kill()
    for worker in workers:
        if pair.has_draft(worker):
            pair.submit_draft(worker)
    pair.beta.up()


def _submit_stuck(pair: Pair, workers: list[StandIn], seen: dict[str, float]) -> None:
    """What a killed daemon's tmux pasted a moment after its end stands there for good; `seen`: since when, by pane."""
    now = time.monotonic()
    for worker in workers:
        if not pair.has_draft(worker):
            seen.pop(worker.pane, None)
        elif now - seen.setdefault(worker.pane, now) > STUCK_S:
            pair.submit_draft(worker)


def _settled(pair: Pair, streams: list[Stream], workers: list[StandIn]) -> dict[str, str]:
    """The outcome of every brief. What failed, or has no word after some seconds, is sent again by its id."""
    bodies = {msg_id: body for stream in streams for msg_id, body in stream.bodies.items()}
    patient_until = time.monotonic() + QUESTIONS_S
    states: dict[str, str] = {}
    drafts: dict[str, float] = {}
    with pair.alpha.client(pair.person) as client:

        def all_settled() -> bool:
            _submit_stuck(pair, workers, drafts)
            rows: InboxRows = client.call("inbox", Inbox(sent=True, all=True, limit=1_000))
            states.update((view.msg_id, view.state) for view in rows.messages)
            again = {"failed"} if time.monotonic() < patient_until else {"failed", "outcome-unknown", "unknown"}
            for msg_id in [m for m, state in states.items() if state in again]:
                # Settled meanwhile: no retry is taken then.
                with contextlib.suppress(CallFailed):
                    client.call("retry", Retry(msg_id, bodies[msg_id]))
            return not (NOT_YET | {"failed"}) & set(states.values())

        try:
            wait_until("every brief has an outcome", all_settled, SETTLE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {collections.Counter(states.values())}") from None
    return states
