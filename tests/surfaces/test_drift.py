"""The code moves between the writing of a message and its landing, on two hosts with real panes and repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleettrio.testing.agents.room import StandIn, TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.waiting import wait_until
from tests.local.repositories import Repo

FILE = "crates/adapters/src/herdr.rs"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """The lead's work tree, on alpha."""
    return Repo.new(tmp_path_factory.mktemp("alpha") / "project", crates__adapters__src__herdr_rs="one\n")


@pytest.fixture(scope="module")
def theirs(ours: Repo, tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """The worker's, on beta: another path, another branch, and what this branch has of its own."""
    folder = tmp_path_factory.mktemp("beta") / "checkout"
    ours.git("clone", "-q", ours.cwd, str(folder))
    repo = Repo(folder)
    repo.git("checkout", "-q", "-b", "feature")
    repo.commit(-10, "w9", crates__adapters__src__herdr_rs="of the feature\n")
    return repo


@pytest.fixture(scope="module")
def worker(fleet: Fleet, room: TmuxRoom, theirs: Repo) -> StandIn:
    agent = room.place()
    wait_until("the worker is on the screen", lambda: "stand-in agent" in room.screen(agent.pane))
    attach = ("attach", "--name", "w9", "--pane", agent.target, "--harness", "script")
    fleet["beta"].ok(*attach, cwd=theirs.folder)
    wait_until("alpha hears of the worker", lambda: fleet["alpha"].agent("w9@beta"))
    return agent


def _landed(worker: StandIn, text: str) -> str:
    return str(wait_until("it landed", lambda: next((turn for turn in worker.turns() if text in turn), "")))


def _block(room: TmuxRoom, worker: StandIn) -> None:
    """From now on it is asked something, and takes nothing."""
    worker.open_dialog()
    wait_until("the dialog", lambda: "1. Yes" in room.screen(worker.pane))


def test_worktrees_on_different_branches_make_no_false_stale(fleet: Fleet, worker: StandIn, ours: Repo) -> None:
    send = ("send", "w9@beta", f"look at {FILE} as it is", "--wait=delivered")
    done = fleet["alpha"].ok(*send, cwd=ours.folder)
    assert "injected" in done.text
    assert "stale" not in _landed(worker, "as it is")


def test_what_moved_is_read_in_the_pane_and_in_the_senders_show(
    fleet: Fleet, room: TmuxRoom, worker: StandIn, ours: Repo, theirs: Repo
) -> None:
    _block(room, worker)
    first = theirs.head
    short = fleet["alpha"].ok("send", "w9@beta", "rename it", "--path", FILE, cwd=ours.folder).text.split()[0]
    for minute, content in enumerate(("two\n", "three\n")):
        theirs.commit(minute + 1, "w9-pj", crates__adapters__src__herdr_rs=content)
    theirs.commit(4, "lead", notes_md="unrelated\n")
    worker.finish()
    note = f"by w9-pj · HEAD {first[:7]} → {theirs.head[:7]}, 3 commits"
    framed = " ".join(_landed(worker, "rename it").split())
    assert "stale: herdr.rs changed twice since this was written" in framed
    assert note in framed

    def sender_is_told() -> bool:
        return note in " ".join(fleet["alpha"].ok("show", short).text.split())

    wait_until("the sender's show has the note", sender_is_told)
    assert note in " ".join(fleet["beta"].ok("show", short).text.split())


def test_on_stale_drop_types_nothing_and_the_sender_learns_why(
    fleet: Fleet, room: TmuxRoom, worker: StandIn, ours: Repo, theirs: Repo
) -> None:
    _block(room, worker)
    alpha = fleet["alpha"]
    send = ("send", "w9@beta", "only as it was", "--path", FILE, "--on-stale", "drop")
    short = alpha.ok(*send, cwd=ours.folder).text.split()[0]
    theirs.write(9, crates__adapters__src__herdr_rs="mid-edit\n")
    worker.finish()
    wait_until("it is dropped", lambda: "stale-dropped" in alpha.ok("show", short).text)
    assert "has an uncommitted change" in " ".join(alpha.ok("show", short).text.split())
    after = alpha.cli("send", "w9@beta", "and this one", "--wait=delivered", cwd=ours.folder)
    assert after.code == 0, after.err
    assert not any("only as it was" in turn for turn in worker.turns())


def test_a_folder_without_a_repository_is_no_trouble(fleet: Fleet, worker: StandIn, tmp_path: Path) -> None:
    alpha = fleet["alpha"]
    assert alpha.ok("send", "w9@beta", "from nowhere", "--wait=delivered", cwd=tmp_path).code == 0
    refused = alpha.cli("send", "w9@beta", "about what?", "--path", "a.rs", cwd=tmp_path)
    assert refused.code == 2
    assert "is in no git work tree" in " ".join(refused.err.split())
