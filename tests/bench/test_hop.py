"""The benchmark's own programs: every message is counted, whoever breaks down is said to have, and all of them end."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fleettrio.bench.context import Context
from fleettrio.bench.pair import Pair, compare_counts
from fleettrio.bench.peers import PEERS, Peer, PeerMissing, Peers, command_of, suspect
from fleettrio.bench.programs import CountsDiffer, last_line, program, wait_ready
from fleettrio.bench.traffic import Told, Way
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.hosts import clean_environment


class OnBroker(Context):
    """With the broker of the test run instead of one more."""

    def __init__(self, broker: BrokerNode) -> None:
        super().__init__(rounds=1)
        self._broker = broker


@pytest.fixture
def context(broker: BrokerNode) -> Iterator[Context]:
    with OnBroker(broker) as context:
        yield context


def told(*ids: str, **more: object) -> Told:
    return Told(ids=list(ids), began=0.0, ended=1.0, cpu=0.0, **more)  # type: ignore[arg-type]


def test_messages_that_were_sent_and_taken_once_each_make_a_figure() -> None:
    compare_counts(told("a", "b"), told("b", "a"), 2)


@pytest.mark.parametrize(
    ("sent", "got", "fault"),
    [
        (told("a", "b"), told("a"), "1 of 2 never came"),
        (told("a", "b"), told("a", "b", "b"), "1 came more than once"),
        (told("a", "b"), told("a", "b", "c"), "1 came that nobody sent"),
        (told("a"), told("a"), "1 of 2 were accepted"),
        (told("a", refused={"inbox-full": 1}), told("a"), "refused: 1 × inbox-full"),
    ],
)
def test_counts_that_do_not_match_make_none_and_say_how_they_differ(sent: Told, got: Told, fault: str) -> None:
    with pytest.raises(CountsDiffer, match=fault):
        compare_counts(sent, got, 2)


def test_two_hosts_pass_every_message_on_one_by_one_and_in_groups(context: Context) -> None:
    with Pair(context, "pure", agents=2) as pair:
        for way in (Way(2, 8), Way(1, 2, 16)):
            hop = pair.hop(40, way=way)
            assert hop.count == 40
            assert hop.rate > 0
            assert hop.sending_s >= 0


@pytest.fixture
def peers_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peers lie beside these tests, also when fleettrio itself was installed elsewhere."""
    monkeypatch.setattr("fleettrio.bench.peers.checkout", lambda: pathlib.Path(__file__).resolve().parents[2])


@pytest.mark.usefixtures("peers_here")
@pytest.mark.parametrize("name", ["raw socket", "aio-pika"])
def test_a_peer_passes_every_message_on_and_answers_every_call(context: Context, name: str) -> None:
    peers = Peers(context)
    assert peers.hop(PEERS[name], 60, 16).count == 60
    assert len(peers.trips(PEERS[name], 5)) == 5


@pytest.mark.usefixtures("peers_here")
def test_a_peer_that_is_not_installed_is_missing_and_breaks_nothing() -> None:
    with pytest.raises(PeerMissing, match="no_such_library is not installed"):
        command_of(Peer("nobody", "nobody.py", "no_such_library", 1.0))


def test_a_peer_far_below_its_usual_share_is_suspect() -> None:
    assert suspect(PEERS["pika"], 0.3)
    assert not suspect(PEERS["pika"], 0.4)


def test_a_program_that_breaks_down_is_told_with_its_last_words() -> None:
    command = [sys.executable, "-c", "raise SystemExit('no broker there')"]
    with program(command, b"", clean_environment()) as broken, pytest.raises(CountsDiffer, match="no broker there"):
        wait_ready(broken)
    with program(command, b"", clean_environment()) as broken, pytest.raises(CountsDiffer, match="no broker there"):
        last_line(broken)


def test_a_program_has_ended_when_its_block_was_left_by_an_exception() -> None:
    command = [sys.executable, "-c", "import time; print('READY', flush=True); time.sleep(60)"]
    found: list[subprocess.Popen[bytes]] = []
    with contextlib.suppress(KeyboardInterrupt), program(command, b"", clean_environment()) as process:
        wait_ready(process)
        found.append(process)
        raise KeyboardInterrupt
    assert found[0].returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(found[0].pid, 0)
