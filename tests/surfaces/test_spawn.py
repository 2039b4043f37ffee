"""Agents started and ended by request: real daemons, a real broker, real panes."""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from fleettrio.broker.amqp import open_border, open_session
from fleettrio.broker.port import BrokerSettings
from fleettrio.core.topology import CONTROL, InboxQueue, Queue, inbox_queue
from fleettrio.ids import Gid, HostId
from fleettrio.launch.launcher import server_name
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.raw_client import RawClient
from fleettrio.testing.waiting import wait_until
from fleettrio.wire.bodies import SpawnBody
from fleettrio.wire.gids import derive_gid
from tests.surfaces.forger import FLEET, Forged, good, raw_client

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org")
BATCH = f"""
size=$(wc -c)
{sys.executable} -P -m fleettrio reply "$FLEETTRIO_MSG_ID" "read $size"
"""
GRANTS = "send,ask,reply,broadcast,spawn:coder,spawn:few,spawn:slow,spawn:dead"
PROFILES = """
[timers]
beat_s = 0.5
[[profile]]
name = "coder"
command = ["{python}", "-P", "-m", "fleettrio.demo.worker", "--log", "{work}/log.jsonl", "--hold", "{work}/hold"]
cwd = "{work}"
harness = "script"
groups = ["crew"]
[[profile]]
name = "few"
command = ["{python}", "-P", "-m", "fleettrio.demo.worker", "--log", "{work}/few.jsonl", "--hold", "{work}/hold"]
cwd = "{work}"
harness = "script"
max = 3
limit_s = 240
[[profile]]
name = "batch"
command = ["sh", "{work}/batch.sh"]
cwd = "{work}"
runtime = "process"
[[profile]]
name = "slow"
command = ["sh", "-c", "echo do you accept the licence?; exec sleep 600"]
cwd = "{work}"
ready = "pattern"
pattern = "never"
limit_s = 4
[[profile]]
name = "dead"
command = ["sh", "-c", "echo no licence found; sleep 1; exit 3"]
cwd = "{work}"
"""


@pytest.fixture(scope="module")
def work() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ft-")).resolve()
    repository = folder / "repo"
    repository.mkdir()
    for command in (["init", "-q", "-b", "main"], [*AUTHOR, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", "-C", repository, *command], check=True)
    (folder / "batch.sh").write_text(BATCH)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def fleet(broker: BrokerNode, work: Path) -> Iterator[Fleet]:
    """alpha has the profiles, and owns the fleet; beta was granted them."""
    more = PROFILES.format(python=sys.executable, work=work)
    with Fleet(broker, "alpha", "beta", more=more) as fleet:
        fleet.add(fleet["beta"], "--grants", GRANTS)
        yield fleet


@pytest.fixture(scope="module")
def alpha(fleet: Fleet) -> Host:
    return fleet["alpha"]


@pytest.fixture(scope="module")
def beta(fleet: Fleet) -> Host:
    wait_until("beta hears of the profiles of alpha", lambda: _profiles(fleet["beta"]))
    return fleet["beta"]


def _profiles(host: Host) -> list[str]:
    return next(other.profiles for other in host.status().fleet.hosts if other.host == "alpha")


def _is_heard(host: Host) -> bool:
    """Whether alpha is there for it: what it last said of itself is known of one that has left, too."""
    return any(other.host == "alpha" and other.status == "up" for other in host.status().fleet.hosts)


def _panes(host: Host) -> list[str]:
    """Agents that run in the panes of this host's server."""
    command = ["tmux", "-L", server_name(host.paths), "list-panes", "-a", "-F", "#{session_name} #{pane_pid}"]
    done = subprocess.run(command, env=host.env, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1]


def _wait_panes(host: Host, count: int) -> None:
    """tmux takes a pane away a moment after its program."""
    wait_until(f"{count} panes are left", lambda: len(_panes(host)) == count)


def _pid(host: Host, name: str) -> int:
    return next(int(line.split()[1]) for line in _panes(host) if line.startswith(f"{name}-"))


def _stop(host: Host, *names: str) -> None:
    for name in names:
        host.ok("stop", name)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_agent_of_the_other_host_is_started_briefed_answers_and_is_ended(alpha: Host, beta: Host) -> None:
    done = beta.cli("spawn", "coder@alpha", "--name", "w9", "please read this\nand answer")
    assert done.code == 0, done.err
    assert "w9@alpha: ready since" in done.text
    brief = done.err.rpartition("fleettrio show ")[2].strip()
    shown = wait_until("the answer is there", lambda: _answered(beta, brief))
    assert shown["recipient"] == "w9@alpha"
    assert "crew" in (agent.groups[0] if (agent := beta.agent("w9@alpha")) and agent.groups else "")
    pid = _pid(alpha, "w9")
    ended = beta.cli("stop", "w9@alpha")
    assert ended.code == 0, ended.err
    assert "ended at" in ended.text
    # A host that is busy for two seconds is named as silent, and asked again.
    told = re.compile(r"human@beta +alpha +done")
    wait_until("both hosts tell it so", lambda: told.search(beta.ok("trace", "@last").text))
    wait_until("its program has ended", lambda: not _runs(pid))
    wait_until("beta hears that it is gone", lambda: beta.agent("w9@alpha") is None)
    _wait_panes(alpha, 0)


def _answered(host: Host, message_id: str) -> dict[str, Any] | None:
    view: dict[str, Any] = host.ok("show", message_id, "--json").json()["messages"][0]
    return view if view["state"] == "answered" else None


def test_a_restart_of_the_daemon_leaves_its_agents_running_and_known(alpha: Host, beta: Host) -> None:
    beta.ok("spawn", "coder@alpha", "--name", "steady")
    pid = _pid(alpha, "steady")
    os.killpg(alpha.pid, signal.SIGKILL)
    alpha.kill()
    alpha.up()
    assert _runs(pid)
    wait_until("it is found again", lambda: (agent := alpha.agent("steady@alpha")) and agent.status == "idle")
    answer = alpha.cli("send", "steady", "are you there?", "--wait", "--timeout", "90")
    assert answer.code == 0, answer.err
    _stop(alpha, "steady")
    wait_until("its program has ended", lambda: not _runs(pid))


def test_a_worktree_goes_with_its_agent_and_stays_with_work_in_it(alpha: Host, work: Path) -> None:
    alpha.ok("spawn", "coder", "--name", "clean", "--cwd", f"{work}/repo", "--worktree")
    trees = alpha.paths.state_dir / "worktrees"
    assert len(list(trees.iterdir())) == 1
    assert "worktree" not in alpha.ok("stop", "clean").text
    assert list(trees.iterdir()) == []
    alpha.ok("spawn", "coder", "--name", "dirty", "--cwd", f"{work}/repo", "--worktree")
    (tree,) = trees.iterdir()
    (tree / "work.txt").write_text("unsaved")
    short = alpha.ok("stop", "dirty").text.split()[0]
    assert str(tree) in alpha.ok("show", short, "--json").json()["messages"][0]["detail"]
    assert (tree / "work.txt").read_text() == "unsaved"


@pytest.mark.parametrize(
    ("arguments", "reason", "said"),
    [
        (("spawn", "coder@alpha", "--cwd", "/etc"), "spawn: cwd", "not a folder under the roots"),
        (("spawn", "slow@alpha"), "spawn: limit", "do you accept the licence?"),
        (("spawn", "dead@alpha"), "spawn: died", "no licence found"),
        (("spawn", "coder@alpha", "--cwd", "{work}", "--worktree"), "spawn: worktree", "not a git repository"),
        (("spawn", "coder@alpha", "--name", "human"), "", "is not a name for an agent"),
        (("spawn", "codr@alpha"), "", "it has: coder, few, batch, slow, dead"),
        (("spawn", "coder@nowhere"), "", "no host"),
        (("stop", "nobody@alpha"), "", "no agent"),
    ],
)
def test_what_cannot_be_is_told_with_its_reason_and_leaves_nothing(
    alpha: Host, beta: Host, work: Path, arguments: tuple[str, ...], reason: str, said: str
) -> None:
    done = beta.cli(*(word.replace("{work}", str(work)) for word in arguments))
    assert done.code in (2, 3), done.err
    told = " ".join(done.err.split())
    assert said in told
    assert reason in told
    _wait_panes(alpha, 0)
    assert alpha.status().fleet.agents[0].name == "human"


def test_a_profile_that_was_not_granted_is_refused(alpha: Host, beta: Host) -> None:
    done = alpha.cli("spawn", "coder@beta")
    assert done.code == 3
    assert "not-authorised" in done.err or "not granted" in done.err
    assert _panes(beta) == []


def test_a_worker_may_neither_start_nor_end_an_agent(alpha: Host) -> None:
    alpha.ok("spawn", "coder", "--name", "hand")
    token = alpha.ok("attach", "--name", "other-hand", "--role", "worker", "--json").json()["token"]
    for arguments in (("spawn", "coder"), ("stop", "hand")):
        done = alpha.cli(*arguments, token=token)
        assert done.code == 3
        assert "is a worker" in done.err
    _stop(alpha, "hand")
    alpha.ok("detach", "other-hand", "--forget")


def test_thirty_at_once_obey_max(alpha: Host, beta: Host) -> None:
    asked = [beta.popen("spawn", "few@alpha", "--timeout", "300") for _ in range(30)]
    codes = []
    for process in asked:
        process.communicate(timeout=600)
        codes.append(process.returncode)
    assert codes.count(0) == 3
    assert codes.count(3) == 27
    assert len(_panes(alpha)) == 3
    few = ("few@alpha", "few-2@alpha", "few-3@alpha")
    wait_until("beta hears of all three", lambda: all(beta.agent(address) for address in few))
    _stop(beta, *few)
    _wait_panes(alpha, 0)


def test_a_spawn_published_again_after_a_restart_starts_nothing(fleet: Fleet, alpha: Host, beta: Host) -> None:
    salt = secrets.token_bytes(16)
    gid = derive_gid(FLEET, "alpha", salt)
    body = SpawnBody(profile="coder", name="once", salt=salt).to_bytes()
    message = good(beta, "alpha", body, kind="SPAWN", spawnId=gid)
    with raw_client(fleet, "beta") as raw:
        assert _published(message, raw)
        wait_until("it is ready", lambda: (agent := beta.agent("once@alpha")) and agent.status == "idle")
        _stop(alpha, "once")
        alpha.kill()
        alpha.up()
        assert _published(message, raw)
        # Whatever comes behind it in the same queue has been seen only when it was.
        wait_until("alpha answers", lambda: beta.cli("ping", "alpha").code == 0)
    assert _panes(alpha) == []
    assert alpha.agent("once@alpha") is None


def _published(message: Forged, raw: RawClient) -> bool:
    return dataclasses.replace(message, exchange=CONTROL).send(raw) == "ack"


@pytest.mark.parametrize(
    ("point", "end"),
    [
        ("P1-recorded", "crashed-mid-spawn"),
        ("P2-acked", "crashed-mid-spawn"),
        ("P3-launched", "crashed-mid-spawn"),
        ("P4-ready", "ready"),
        ("P5-announced", "ready"),
    ],
)
def test_a_daemon_killed_at_any_step_of_a_start_tells_what_came_of_it_and_leaves_no_orphan(
    alpha: Host, beta: Host, point: str, end: str
) -> None:
    alpha.stop()
    alpha.up({"FLEETTRIO_FAILPOINT": point})
    wait_until("beta hears alpha again", lambda: _is_heard(beta))
    short = beta.ok("spawn", "coder@alpha", "--name", "mid", "--no-wait").text.split()[0]
    alpha.wait_end()
    alpha.up()
    view = wait_until("its word is there", lambda: _final(beta, short))
    assert end in (view["state"], view["reason"])
    _wait_panes(alpha, int(end == "ready"))
    if end == "ready":
        _stop(alpha, "mid")
    wait_until("it is gone", lambda: alpha.agent("mid@alpha") is None)


def _final(host: Host, short: str) -> dict[str, Any] | None:
    view: dict[str, Any] = host.ok("show", short, "--json").json()["messages"][0]
    return view if view["state"] in ("ready", "failed") else None


def test_prune_shows_what_is_left_and_takes_it_away_but_for_work(fleet: Fleet, alpha: Host, work: Path) -> None:
    alpha.ok("spawn", "coder", "--name", "lost", "--cwd", f"{work}/repo", "--worktree")
    gid = next(agent.gid for agent in alpha.status().fleet.agents if agent.name == "lost")
    tree = next((alpha.paths.state_dir / "worktrees").glob("lost-*"))
    alpha.ok("stop", "lost")
    # As if the end had been cut short: a pane under the id of an agent that is gone, a queue nobody has.
    command = ["tmux", "-L", server_name(alpha.paths), "new-session", "-d", "-s", "left", "sleep", "600", ";"]
    subprocess.run([*command, "set-option", "-t", "left", "@fleettrio", gid], env=alpha.env, check=True)
    subprocess.run(["git", "-C", work / "repo", "worktree", "add", "-q", "-b", "again", tree], check=True)
    queue = inbox_queue(HostId("alpha"), InboxQueue(Gid(gid)))[0]
    _declare(fleet, queue)
    looked = alpha.ok("prune", "--json").json()["orphans"]
    mine = [orphan for orphan in looked if gid in orphan["what"] + orphan["detail"] or str(tree) == orphan["what"]]
    assert sorted(orphan["kind"] for orphan in mine) == ["inbox", "pane", "worktree"]
    assert not any(orphan["gone"] for orphan in looked)
    assert len(_panes(alpha)) == 1
    (tree / "work.txt").write_text("unsaved")
    taken = {orphan["what"]: orphan for orphan in alpha.cli("prune", "--yes", "--json").json()["orphans"]}
    assert taken[queue.name]["gone"]
    assert not taken[str(tree)]["gone"]
    assert "not committed" in taken[str(tree)]["detail"]
    _wait_panes(alpha, 0)
    (tree / "work.txt").unlink()
    alpha.cli("prune", "--yes")
    assert not tree.exists()


def _declare(fleet: Fleet, queue: Queue) -> None:
    """With the login of alpha, as its gateway would."""
    assert fleet.broker is not None
    settings = BrokerSettings(
        uris=(fleet.uri(),), user=fleet.logins["alpha"][0], password_file=str(fleet["alpha"].password_file)
    )

    async def declare() -> None:
        async with open_border(), open_session(settings, 1) as session:
            await session.declare((), (queue,), ())

    trio.run(declare)


def test_a_process_profile_answers_each_message_by_a_command(alpha: Host, work: Path) -> None:
    alpha.ok("spawn", "batch", "--name", "batch-1", "--group", "night")
    answer = alpha.cli("send", "batch-1", "count this", "--wait", "--timeout", "90")
    assert answer.code == 0, answer.err
    assert answer.text.startswith("read ")
    _stop(alpha, "batch-1")
    wait_until("it is gone", lambda: alpha.agent("batch-1@alpha") is None)
