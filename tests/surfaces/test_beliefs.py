"""What a hostile sender puts into `causal`: its message arrives, nothing outside the work tree is looked at or told."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import pytest

from fleettrio.testing.agents.room import StandIn, TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.waiting import wait_until
from fleettrio.wire.causal import MAX_CAUSAL, MOST_PATHS
from fleettrio.wire.plain import dump_plain
from tests.local.repositories import Repo
from tests.surfaces.forger import good, raw_client

SECRET = b"the code for the door\n"
RIGHT, WRONG = hashlib.sha256(SECRET).digest(), bytes(32)


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """The worker's, with a link that leads out of it to a secret, and a secret beside it."""
    folder = tmp_path_factory.mktemp("beta")
    (folder / "secret").write_bytes(SECRET)
    repo = Repo.new(folder / "project", a_py="one\n")
    (repo.folder / "link").symlink_to(folder / "secret")
    return repo


@pytest.fixture(scope="module")
def worker(fleet: Fleet, room: TmuxRoom, repo: Repo) -> StandIn:
    agent = room.place()
    wait_until("the worker is on the screen", lambda: "stand-in agent" in room.screen(agent.pane))
    attach = ("attach", "--name", "careful", "--pane", agent.target, "--harness", "script")
    fleet["beta"].ok(*attach, cwd=repo.folder)
    wait_until("alpha hears of the worker", lambda: fleet["alpha"].agent("careful@beta"))
    return agent


def belief(repo: Repo, *paths: str, fingerprint: bytes = WRONG, head: str = "") -> bytes:
    prints = [fingerprint] * len(paths)
    return dump_plain({"repo": repo.head, "head": head or repo.head, "paths": list(paths), "fingerprints": prints})


def hostile(repo: Repo) -> dict[str, bytes]:
    absolute: Path = repo.folder.parent / "secret"
    return {
        "noise": b"\xff" * 64,
        "out of the tree": belief(repo, "../secret"),
        "an absolute path": belief(repo, str(absolute)),
        "git's own files": belief(repo, ".git/config"),
        "a head that is an option": belief(repo, "a.py", head="--output=/tmp/x"),
        "too many paths": belief(repo, *(f"f{number}" for number in range(MOST_PATHS + 1)))[:MAX_CAUSAL],
        "through a link, with the right fingerprint": belief(repo, "link", fingerprint=RIGHT),
        "through a link, with a wrong one": belief(repo, "link", fingerprint=WRONG),
    }


def test_a_hostile_belief_costs_its_message_the_note_and_tells_nothing(
    fleet: Fleet, worker: StandIn, repo: Repo
) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    agent = alpha.agent("careful@beta")
    assert agent is not None
    sessions = beta.log.count("session open")
    forged = {case: good(alpha, agent.gid, case.encode(), causal=causal) for case, causal in hostile(repo).items()}
    with raw_client(fleet) as raw:
        assert {message.send(raw) for message in forged.values()} == {"ack"}
    for case, message in forged.items():
        turn = wait_until(f"it landed: {case}", functools.partial(_turn, worker, case))
        assert "stale" not in turn, case
        assert beta.ok("show", message.fields["msgId"], "--json").json()["messages"][0]["stale"] == ""
    assert beta.log.count("session open") == sessions
    done = alpha.ok("send", "careful@beta", "and a good one", "--wait=delivered")
    assert "injected" in done.text


def _turn(worker: StandIn, text: str) -> str:
    return next((turn for turn in worker.turns() if f"│ {text}\n" in turn), "")
