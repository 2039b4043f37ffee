"""Drift over two hosts with real repositories: what the agent reads, what its client gets, what the sender is told."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import trio

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.messages import Messages
from fleettrio.api.rpc import CallError, Connection
from fleettrio.broker.memory import MemoryBroker
from fleettrio.panes import git
from fleettrio.tasks.look import announce_place
from tests.core.builders import agent
from tests.local.repositories import Repo
from tests.tasks.shell import LIMIT_S, Pane, Shell, running, until, until_stored

HERDR = "crates/src/herdr.rs"
HERE = Connection(pid=1, uid=0)


@dataclasses.dataclass
class Stage:
    """alpha, where a lead works in `repo`; beta, where a worker with a pane and a puller work in `theirs`, a clone."""

    alpha: Shell
    beta: Shell
    repo: Repo
    theirs: Repo

    async def send(self, to: str, body: str = "do it", sender: str = "human", **options: object) -> schema.MessageView:
        params = schema.Send(to=[to], body=body.encode(), cwd=self.repo.cwd, **options)  # type: ignore[arg-type]
        caller = Caller(self.alpha.gid(sender), sender, sender == "human")
        return (await Messages(self.alpha.performer).sending.send(params, caller, HERE)).messages[0]

    async def shown(self, view: schema.MessageView) -> schema.MessageView:
        caller = Caller(self.alpha.gid("human"), "human", True)
        shown = await Messages(self.alpha.performer).show(schema.Show(view.msg_id), caller, HERE)
        return next(view for view in shown.messages if view.direction == "out")

    @property
    def pane(self) -> Pane:
        return self.beta.panes[self.beta.gid("worker")]

    async def told(self, view: schema.MessageView, state: str) -> schema.MessageView:
        await until_stored(lambda: self.alpha.is_fate(view.msg_id, view.gid, state), f"{state} at the sender")  # type: ignore[arg-type]
        return await self.shown(view)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """git may take its time on a machine that is busy with other things."""
    for module in ("panes.git", "tasks.look", "api.beliefs"):
        monkeypatch.setattr(f"fleettrio.{module}.LIMIT_S", LIMIT_S)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    repo = Repo.new(tmp_path / "lead", crates__src__herdr_rs="one\n", other_md="text\n")
    repo.git("clone", "-q", repo.cwd, str(tmp_path / "elsewhere"))
    theirs = Repo(tmp_path / "elsewhere")
    broker = MemoryBroker()
    lead = agent("lead", "alpha", takes="pull", transport="pull", cwd=repo.cwd)
    worker = agent("worker", "beta", cwd=f"{theirs.cwd}/crates")
    puller = agent("puller", "beta", takes="pull", transport="pull", cwd=theirs.cwd)
    async with (
        running("alpha", tmp_path, broker, [lead]) as alpha,
        running("beta", tmp_path, broker, [worker, puller]) as beta,
    ):
        await announce_place(beta.gid("puller"), beta.performer)
        place = alpha.gateway.roster.place
        for name in ("worker", "puller"):
            await until(lambda name=name: place(beta.gid(name))[1] == theirs.head, f"where {name} is")  # type: ignore[misc]
        yield Stage(alpha, beta, repo, theirs)


async def test_the_note_is_in_the_agents_frame_and_at_its_sender(stage: Stage) -> None:
    stage.pane.not_ready = "it is busy"
    first = stage.theirs.head
    sent = await stage.send("worker@beta", f"please rename it in {HERDR}")
    stage.theirs.commit(5, "w9", crates__src__herdr_rs="two\n")
    stage.pane.not_ready = ""
    await until(lambda: stage.pane.texts, "the frame")
    framed = stage.pane.texts[0].framed
    assert "stale: herdr.rs changed once since this was written" in framed
    assert f"by w9 · HEAD {first[:7]} → {stage.theirs.head[:7]}, 1 commit" in framed
    told = await stage.told(sent, "injected")
    assert told.stale.startswith("herdr.rs changed once since this was written")
    place = stage.alpha.gateway.roster.place
    await until(lambda: place(stage.beta.gid("worker"))[1] == stage.theirs.head, "the new HEAD")


async def test_nothing_moved_and_the_frame_says_nothing_of_it(stage: Stage) -> None:
    stage.repo.commit(-1, "lead", other_md="another branch of work\n")  # at the sender: no affair of the worker's tree
    sent = await stage.send("worker@beta", paths=[HERDR, "other.md"])
    await until(lambda: stage.pane.texts, "the frame")
    assert "stale" not in stage.pane.texts[0].framed
    assert (await stage.told(sent, "injected")).stale == ""


async def test_on_stale_drop_types_nothing_and_tells_why(stage: Stage) -> None:
    stage.pane.not_ready = "it is busy"
    sent = await stage.send("worker@beta", paths=[HERDR], on_stale="drop")
    stage.theirs.write(5, crates__src__herdr_rs="mid-edit\n")
    stage.pane.not_ready = ""
    told = await stage.told(sent, "failed")
    assert (told.reason, told.exit_code) == ("stale-dropped", 3)
    assert "herdr.rs has an uncommitted change" in told.detail
    assert "as you asked" in told.sentence
    assert stage.pane.texts == []


async def test_a_client_that_fetches_reads_the_note_with_the_message(stage: Stage) -> None:
    sent = await stage.send("puller@beta", paths=[HERDR])
    await stage.told(sent, "held")
    stage.theirs.commit(5, "w9", crates__src__herdr_rs="two\n")
    messages, caller = Messages(stage.beta.performer), Caller(stage.beta.gid("puller"), "puller")
    pulled = await messages.waiting.pull(schema.Pull(), caller, HERE)
    assert [message.stale.partition(" (")[0] for message in pulled.messages] == [
        "herdr.rs changed once since this was written"
    ]
    await messages.waiting.confirm(schema.Confirm(pulled.cursor), caller, HERE)
    assert (await stage.told(sent, "drained")).stale.startswith("herdr.rs changed once")


async def test_a_git_that_hangs_delays_a_delivery_by_its_bound_and_no_more(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.pane.not_ready = "it is busy"
    sent = await stage.send("worker@beta", paths=[HERDR])
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "git"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(git, "LIMIT_S", 0.2)
    stage.pane.not_ready = ""
    await until(lambda: stage.pane.texts, "the frame")
    assert (await stage.told(sent, "injected")).stale == ""


async def test_cancelled_while_the_tree_is_looked_at_the_message_waits_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = Repo.new(tmp_path / "work", a_rs="one\n")
    worker = agent("worker", "beta", cwd=repo.cwd)
    async with running("beta", tmp_path, MemoryBroker(), [worker], connected=False) as beta:
        looking = trio.Event()

        async def hang(*_: object) -> None:
            looking.set()
            await trio.sleep_forever()

        monkeypatch.setattr("fleettrio.tasks.look.look", hang)
        params = schema.Send(to=["worker"], body=b"look", cwd=repo.cwd)
        caller = Caller(beta.gid("human"), "human", True)
        sent = (await Messages(beta.performer).sending.send(params, caller, HERE)).messages[0]
        await looking.wait()
    async with running("beta", tmp_path, MemoryBroker(), [worker], connected=False, deliver=False) as beta:
        assert await beta.is_state(sent.msg_id, "worker", "waiting")  # type: ignore[arg-type]


# --- who is believed about what -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"paths": ["../secret"]}, "not the path of a file"),
        ({"paths": ["nothing.rs"]}, "does not exist"),
        ({"paths": [f"{i}.rs" for i in range(25)]}, "at most 24"),
    ],
)
async def test_what_a_message_cannot_be_about_is_told_to_its_sender(stage: Stage, options: object, why: str) -> None:
    with pytest.raises(CallError, match=why) as refused:
        await stage.send("worker@beta", **options)  # type: ignore[arg-type]
    assert refused.value.exit_code == 2


async def test_an_agent_is_believed_about_its_own_work_tree_only(stage: Stage, tmp_path: Path) -> None:
    other = Repo.new(tmp_path / "other", secret_env="x\n")
    await stage.send("worker@beta", sender="lead", paths=[HERDR])
    stage.repo = other
    with pytest.raises(CallError, match="not the one that lead is attached in"):
        await stage.send("worker@beta", sender="lead", paths=["secret.env"])
    await stage.send("worker@beta", "and that", sender="lead")  # as a message without a belief
    await until(lambda: len(stage.pane.texts) == 2, "both")
    rows = await stage.beta.store.inbox_rows(stage.beta.gid("worker"))
    assert [row.has_causal for row in rows] == [False, True]  # newest first


async def test_outside_of_a_repository_drop_cannot_be_asked_for(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    stage.repo = Repo(tmp_path / "plain")
    await stage.send("worker@beta")
    with pytest.raises(CallError, match="in no git work tree") as refused:
        await stage.send("worker@beta", on_stale="drop")
    assert refused.value.hint


async def test_an_agent_that_left_its_repository_is_looked_at_no_more(stage: Stage) -> None:
    gid = stage.beta.gid("puller")
    entity = stage.beta.gateway.roster.entities[gid]
    stage.beta.gateway.roster.put(msgspec.structs.replace(entity, cwd=""))
    sent = await stage.send("puller@beta", paths=[HERDR])
    await stage.told(sent, "held")
    stage.theirs.commit(5, "w9", crates__src__herdr_rs="two\n")
    pulled = await Messages(stage.beta.performer).waiting.pull(schema.Pull(), Caller(gid, "puller"), HERE)
    assert [message.stale for message in pulled.messages] == [""]
