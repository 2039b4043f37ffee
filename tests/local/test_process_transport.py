"""A command per message: exact text on its standard input, alone in its session, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from fleettrio.core.entity import Entity
from fleettrio.errors import ConfigError
from fleettrio.ids import Gid
from fleettrio.local import process
from fleettrio.local.frame import unframe
from fleettrio.local.noway import NoWay, pull
from fleettrio.local.port import AgentState, DeliveryOutcome, NotReady, Reserved, Text
from fleettrio.local.process import ProcessTransport
from fleettrio.local.sanitise import clean
from fleettrio.local.tmux import TmuxTransport
from fleettrio.local.transports import open_transport
from fleettrio.local.worker_token import worker_token
from fleettrio.testing.agents.room import SOURCE, until
from fleettrio.testing.transport_case import framed as brief

if TYPE_CHECKING:
    from tests.local.conftest import Hostile

WORKER = """
import json, os, sys
text = sys.stdin.buffer.read()
record = {"text": text.decode(), "sid": os.getsid(0), "pid": os.getpid(), "cwd": os.getcwd(),
          "id": os.environ["FLEETTRIO_MSG_ID"], "token": os.environ.get("FLEETTRIO_TOKEN")}
print("said", record["id"], flush=True)
temporary = sys.argv[1] + ".new"
open(temporary, "w").write(json.dumps(record))
os.rename(temporary, sys.argv[1])
"""


def framed(body: bytes | str = "three\nlines 漢字 🚀\nSELECT 1;", short_id: str = "9c41d2aa") -> Text:
    return brief(body, short_id)


def worker(folder: Path, **options: object) -> ProcessTransport:
    argv = [sys.executable, "-c", WORKER, str(folder / "record.json")]
    return ProcessTransport(argv, cwd=str(folder), **options)  # type: ignore[arg-type]


async def reserve(via: ProcessTransport) -> Reserved:
    answer = await via.reserve("idle")
    assert isinstance(answer, Reserved), answer
    return answer


async def is_idle(via: ProcessTransport) -> None:
    """Wait until its command has ended."""
    child = via._running
    assert child is not None
    await until("the command has ended", lambda: child.poll() is not None)


async def test_the_command_gets_the_exact_text_and_who_it_is(tmp_path: Path) -> None:
    output = tmp_path / "out" / "worker.log"
    via = worker(tmp_path, env={"FLEETTRIO_TOKEN": "w-token"}, output=output)
    text = framed()
    done = await via.deliver(await reserve(via), text)
    assert done.outcome is DeliveryOutcome.SUBMITTED
    await is_idle(via)
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["text"] == text.framed
    assert record["sid"] == record["pid"] != os.getsid(0)
    assert (record["cwd"], record["id"], record["token"]) == (str(tmp_path), "9c41d2aa", "w-token")
    assert output.read_text() == "said 9c41d2aa\n"
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert stat.S_IMODE(output.parent.stat().st_mode) == 0o700


async def test_a_hostile_body_arrives_cleaned(tmp_path: Path, hostile: Hostile) -> None:
    via = worker(tmp_path)
    assert (await via.deliver(await reserve(via), framed(hostile.body))).outcome is DeliveryOutcome.SUBMITTED
    await is_idle(via)
    assert unframe(json.loads((tmp_path / "record.json").read_text())["text"]) == clean(hostile.body)


async def test_a_body_of_200_kb_arrives_whole(tmp_path: Path) -> None:
    via = worker(tmp_path)
    body = "\n".join(f"{n:06d} {'記' * 20}" for n in range(3_000))
    assert len(body.encode()) > 200_000
    assert (await via.deliver(await reserve(via), framed(body))).outcome is DeliveryOutcome.SUBMITTED
    await is_idle(via)
    assert unframe(json.loads((tmp_path / "record.json").read_text())["text"]) == body


async def test_the_token_of_whoever_started_the_daemon_is_not_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETTRIO_TOKEN", "of-the-lead")
    via = worker(tmp_path)
    await via.deliver(await reserve(via), framed())
    await is_idle(via)
    assert json.loads((tmp_path / "record.json").read_text())["token"] is None


async def test_one_run_at_a_time(tmp_path: Path) -> None:
    via = ProcessTransport(["sh", "-c", "cat >/dev/null; exec tail -f /dev/null"])
    reserved = await reserve(via)
    assert (await via.deliver(reserved, framed())).outcome is DeliveryOutcome.SUBMITTED
    assert await via.state() is AgentState.WORKING
    for when in ("idle", "now"):
        answer = await via.reserve(when)
        assert isinstance(answer, NotReady)
        assert answer.state is AgentState.WORKING
    assert (await via.deliver(reserved, framed())).outcome is DeliveryOutcome.NOTHING_WRITTEN
    child = via._running
    assert child is not None
    await via.close()
    assert child.poll() is None, "closing leaves the command alone"
    os.kill(child.pid, signal.SIGTERM)
    await is_idle(via)
    assert await via.state() is AgentState.IDLE
    assert isinstance(await via.reserve("idle"), Reserved)


async def test_no_zombie_is_left_though_nobody_looks(tmp_path: Path) -> None:
    via = ProcessTransport(["cat"])
    done = await via.deliver(await reserve(via), framed())
    pid = int(done.detail.split()[-1])
    await until("the process is gone from the table", lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize("command", ["/nowhere/agent", "no-such-agent-anywhere"])
async def test_a_command_that_is_not_there_is_said_and_nothing_is_written(command: str) -> None:
    via = ProcessTransport([command])
    answer = await via.reserve("idle")
    assert isinstance(answer, NotReady)
    assert command in answer.why
    done = await via.deliver(Reserved("0", AgentState.IDLE), framed())
    assert done.outcome is DeliveryOutcome.NOTHING_WRITTEN
    assert command in done.detail
    assert await via.state() is AgentState.IDLE


async def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    answer = await ProcessTransport(["cat"], cwd=str(tmp_path / "gone")).reserve("idle")
    assert isinstance(answer, NotReady)
    assert "gone" in answer.why


@pytest.mark.parametrize(
    ("script", "outcome", "detail"),
    [
        ("exit 3", DeliveryOutcome.UNCONFIRMED, "ended with 3"),
        ("exit 0", DeliveryOutcome.SUBMITTED, "process"),
        ("kill -9 $$", DeliveryOutcome.UNCONFIRMED, "ended with -9"),
        ("cat >/dev/null; exit 3", DeliveryOutcome.SUBMITTED, "process"),
    ],
)
async def test_a_command_that_ends_at_once(script: str, outcome: DeliveryOutcome, detail: str) -> None:
    via = ProcessTransport(["sh", "-c", script])
    done = await via.deliver(await reserve(via), framed())
    assert done.outcome is outcome
    assert detail in done.detail


async def test_a_command_that_never_reads_is_unconfirmed() -> None:
    via = ProcessTransport(["tail", "-f", "/dev/null"], read_bound_s=0.2)
    done = await via.deliver(await reserve(via), framed())
    assert done.outcome is DeliveryOutcome.UNCONFIRMED
    assert "not read" in done.detail
    child = via._running
    assert child is not None
    os.kill(child.pid, signal.SIGTERM)
    await is_idle(via)


async def test_the_command_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    program = f"""
import trio
from fleettrio.local.noway import NoWay, pull
from fleettrio.local.port import Text
from fleettrio.local.process import ProcessTransport
async def main():
    via = ProcessTransport(["sh", "-c", "cat >got; echo $$ >pid.new; mv pid.new pid; exec tail -f /dev/null"],
                           cwd={str(tmp_path)!r})
    done = await via.deliver(await via.reserve("idle"), Text("the text", "", "9c41d2aa", "n"))
    print(done.outcome, flush=True)
trio.run(main)
"""
    env = {**os.environ, "PYTHONPATH": SOURCE}
    ended = await trio.run_process(
        [sys.executable, "-c", program], env=env, capture_stdout=True, capture_stderr=True, check=False
    )
    assert (ended.stdout.strip(), ended.stderr) == (b"submitted", b"")
    await until("the command has written its pid", (tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())
    assert (tmp_path / "got").read_text() == "the text"
    os.kill(pid, 0)
    os.kill(pid, signal.SIGTERM)


async def test_output_beyond_the_limit_starts_the_file_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "OUTPUT_LIMIT", 1_000)
    monkeypatch.setattr(process, "WATCH_S", 0.01)
    output = tmp_path / "worker.log"
    script = "cat >/dev/null; i=0; while [ ! -e stop ]; do echo line; done; echo last"
    via = ProcessTransport(["sh", "-c", script], cwd=str(tmp_path), output=output)
    sizes = [0]

    def shrank() -> bool:
        sizes.append(output.stat().st_size)
        return sizes[-1] < sizes[-2]

    try:
        await via.deliver(await reserve(via), framed())
        await until("the file was started anew", shrank)
    finally:
        (tmp_path / "stop").touch()  # or the command would write for ever
    await is_idle(via)


def test_no_command_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no command"):
        ProcessTransport([])


ENTITY = Entity(gid=Gid("00000000-0000-4000-8000-000000000001"), name="worker", salt=b"")


async def test_each_entity_gets_its_transport(tmp_path: Path) -> None:
    env = {"FLEETTRIO_HOME": str(tmp_path)}
    assert isinstance(open_transport(ENTITY, env), NoWay)
    tmux = open_transport(msgspec.structs.replace(ENTITY, transport="tmux", target="x:%3", harness="script"), env)
    assert isinstance(tmux, TmuxTransport)
    assert (tmux.name, tmux.wakes) == ("tmux", True)
    command = msgspec.structs.replace(ENTITY, transport="process", target="sh -c 'cat >got'", cwd=str(tmp_path))
    via = open_transport(command, env)
    assert isinstance(via, ProcessTransport)
    assert (await via.deliver(await reserve(via), framed())).outcome is DeliveryOutcome.SUBMITTED
    await is_idle(via)
    assert (tmp_path / "got").read_text() == framed().framed
    assert (tmp_path / "state" / "output" / f"{ENTITY.gid}.log").exists()


async def test_its_process_gets_its_own_token_and_never_the_one_of_who_started_the_daemon(tmp_path: Path) -> None:
    env = {"FLEETTRIO_HOME": str(tmp_path), "FLEETTRIO_TOKEN": "of who started the daemon"}
    print_token = "sh -c 'cat >/dev/null; printf %s \"$FLEETTRIO_TOKEN\" >token'"
    command = msgspec.structs.replace(ENTITY, transport="process", target=print_token, cwd=str(tmp_path))
    for token in ("", worker_token("the operator's token", command)):
        via = open_transport(command, env, token)
        assert isinstance(via, ProcessTransport)
        await via.deliver(await reserve(via), framed())
        await is_idle(via)
        assert (tmp_path / "token").read_text() == token


def test_a_worker_token_is_one_agents_and_only_while_it_is_a_command() -> None:
    command = msgspec.structs.replace(ENTITY, transport="process", target="work")
    other = msgspec.structs.replace(command, gid=Gid("00000000-0000-4000-8000-000000000002"))
    token = worker_token("a" * 64, command)
    assert token == worker_token("a" * 64, msgspec.structs.replace(command, status="working", target="other"))
    assert token not in (worker_token("b" * 64, command), worker_token("a" * 64, other))
    assert worker_token("a" * 64, ENTITY) == worker_token("", command) == ""


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"transport": "carrier-pigeon"}, "carrier-pigeon"),
        ({"transport": "tmux", "target": "main"}, "not a tmux pane"),
        ({"transport": "tmux", "target": "%1", "harness": "nope"}, "no harness 'nope'"),
        ({"transport": "process", "target": "sh -c 'open"}, "cannot be split"),
        ({"transport": "process", "target": ""}, "no command"),
    ],
)
def test_an_entity_that_cannot_be_reached_says_why(tmp_path: Path, changes: dict[str, str], complaint: str) -> None:
    entity = msgspec.structs.replace(ENTITY, **changes)
    with pytest.raises(ConfigError, match=complaint):
        open_transport(entity, {"FLEETTRIO_HOME": str(tmp_path)})


async def test_a_client_that_pulls_is_never_pushed() -> None:
    via = pull()
    for when in ("idle", "turn", "now"):
        assert isinstance(await via.reserve(when), NotReady)
    done = await via.deliver(Reserved("", AgentState.UNKNOWN), framed())
    assert done.outcome is DeliveryOutcome.NOTHING_WRITTEN
    assert (via.name, via.wakes) == ("pull", False)
