"""Claims by many processes, and by agents of two hosts: one holder a key, whoever dies meanwhile."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host, end_process
from fleettrio.testing.waiting import wait_until

CLAIMANT = Path(__file__).with_name("claimant.py")
PROCESSES, CLAIMS, KEYS = 8, 125, 100
BOUND_S = 400.0
"""Each claim is on the disk before it is granted: a slow one takes its time for a thousand."""


@pytest.fixture
def alone() -> Iterator[Host]:
    with Fleet(None, "solo") as fleet:
        yield fleet["solo"]


def _attach(host: Host, name: str) -> str:
    return str(host.ok("attach", "--name", name, "--json").json()["token"])


def _lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]


def _wait_claims(logs: list[Path], wanted: int) -> None:
    wait_until(f"{wanted} claims", lambda: sum(len(_lines(log)) for log in logs) >= wanted, BOUND_S)


def test_a_thousand_claims_by_eight_processes_have_one_holder_each_though_the_daemon_dies_twice(
    alone: Host, tmp_path: Path
) -> None:
    tokens = [_attach(alone, f"worker-{number}") for number in range(PROCESSES)]
    logs = [tmp_path / f"{number}.log" for number in range(PROCESSES)]
    started = []
    try:
        for number, (token, log) in enumerate(zip(tokens, logs, strict=True)):
            argv = [sys.executable, str(CLAIMANT), str(alone.paths.socket), token, str(number), str(CLAIMS), str(KEYS)]
            with log.open("w") as out:
                started.append(subprocess.Popen(argv, env=alone.env, stdout=out, stderr=subprocess.STDOUT))
        for part in (1, 2):
            _wait_claims(logs, part * PROCESSES * CLAIMS // 3)
            alone.kill()
            alone.up()
        codes = [process.wait(BOUND_S) for process in started]
    finally:
        for process in started:
            end_process(process)
    assert codes == [0] * PROCESSES, [log.read_text()[-500:] for log in logs]

    grants = defaultdict[str, list[tuple[int, float, float, int]]](list)
    for number, log in enumerate(logs):
        lines = _lines(log)
        assert len(lines) == CLAIMS
        for line in lines:
            if "from" in line:
                until = line["until"] if line["until"] is not None else float("inf")
                grants[line["key"]].append((line["fence"], line["from"], until, number))
    assert len(grants) > KEYS * 0.9
    for key, held in grants.items():
        by_fence = sorted(held)
        for (fence, _, until, who), (next_fence, begin, _, next_who) in itertools.pairwise(by_fence):
            if who == next_who:
                continue  # its own again: the same grant renewed, or a later one
            assert fence < next_fence, f"{key}: fence {fence} was given twice"
            assert until <= begin, f"{key}: {who} held it with {fence} while {next_who} got {next_fence}"


def test_two_hosts_have_one_arbiter_and_without_it_nobody_guesses(fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    lead, worker = _attach(alpha, "claim-lead"), _attach(beta, "claim-worker")
    wait_until("beta hears of the lead", lambda: beta.agent("claim-lead@alpha"))
    assert "decided by beta" in alpha.ok("claim", "beta:issue-149", token=lead).text
    held = beta.cli("claim", "issue-149", token=worker)
    assert held.code == 3
    assert "claim-lead@alpha" in held.err
    alpha.ok("release", "beta:issue-149", token=lead)
    beta.ok("claim", "issue-149", token=worker)
    unknown = alpha.cli("claim", "gamma:issue-149", token=lead)
    assert (unknown.code, "no host 'gamma'" in unknown.err) == (2, True)


def test_a_silent_arbiter_is_an_error(broker: BrokerNode) -> None:
    with Fleet(broker, "alpha", "beta") as two:
        lead = _attach(two["alpha"], "lead")
        two["alpha"].ok("claim", "beta:issue-1", token=lead)
        two["beta"].kill()
        failed = two["alpha"].cli("claim", "beta:issue-2", token=lead)
        assert failed.code == 8, failed.err
        assert "beta did not answer" in failed.err
