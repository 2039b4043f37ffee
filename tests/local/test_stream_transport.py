"""A program that stays: fed a line, heard to its result, found again after the daemon, and ended when it is let go."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio

from fleettrio.errors import ConfigError
from fleettrio.local import resident, stream
from fleettrio.local.dialects import LINES, STREAM_JSON, Began, Dialect
from fleettrio.local.port import AgentState, DeliveryOutcome, Keeper, NotReady, Reserved, Turn
from fleettrio.local.stream import StreamTransport
from fleettrio.testing.agents.room import BOUND_S, SOURCE, StandIn, until
from fleettrio.testing.transport_case import framed

TALKER = [sys.executable, "-m", "fleettrio.testing.agents.talker"]


class Desk:
    """One agent's folder, log and transport; another transport into the same folder is the next daemon's."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log.jsonl"
        self.ways: list[StreamTransport] = []

    def open(self, *options: str, dialect: Dialect = LINES, argv: list[str] | None = None) -> StreamTransport:
        via = StreamTransport(
            argv or [*TALKER, "--log", str(self.log), *options],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE, "FLEETTRIO_TOKEN": "its own"},
            cwd=str(self.folder),
            folder=self.folder / "stream",
            dialect=dialect,
            turn_s=30,
        )
        self.ways.append(via)
        return via

    def turns(self) -> list[str]:
        return StandIn("", "", self.log).turns()

    def pids(self) -> list[int]:
        return [event["pid"] for event in StandIn("", "", self.log).events("begun")]

    async def finish(self) -> None:
        os.kill(self.pids()[-1], signal.SIGUSR2)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    for via in desk.ways:
        await via.end()


async def reserved_by(via: StreamTransport) -> Reserved:
    answer = await via.reserve("idle")
    assert isinstance(answer, Reserved), answer
    return answer


async def until_over(via: StreamTransport) -> list[Turn]:
    with trio.fail_after(BOUND_S):
        while True:
            await via.state()
            if over := via.turns_over():
                return over
            await trio.sleep(0.01)


async def until_state(via: StreamTransport, state: AgentState) -> None:
    with trio.fail_after(BOUND_S):
        while True:
            if await via.state() is state:
                return
            await trio.sleep(0.01)


@pytest.mark.parametrize(
    ("dialect", "options"), [(LINES, ()), (STREAM_JSON, ("--stream-json",))], ids=["lines", "json"]
)
async def test_a_message_is_a_turn_and_its_last_words_are_heard(
    desk: Desk, dialect: Dialect, options: tuple[str, ...]
) -> None:
    via = desk.open("--answer", "reviewed: 直した", *options, dialect=dialect)
    assert isinstance(via, Keeper)
    for number in range(2):
        done = await via.deliver(await reserved_by(via), framed(f"brief {number}\nsecond line"))
        assert (done.outcome, done.saw_work) == (DeliveryOutcome.SUBMITTED, True)
        assert await until_over(via) == [Turn("reviewed: 直した".encode(), "done")]
        assert await via.state() is AgentState.IDLE
    assert desk.turns() == [framed(f"brief {number}\nsecond line").framed for number in range(2)]
    assert len(desk.pids()) == 1, "one program for both"
    assert via.turns_over() == [], "each is told once"


async def test_a_turn_lasts_until_its_result_and_nothing_else_goes_in(desk: Desk) -> None:
    via = desk.open("--hold")
    reserved = await reserved_by(via)
    await via.deliver(reserved, framed())
    for when in ("idle", "turn", "now"):
        answer = await via.reserve(when)
        assert isinstance(answer, NotReady)
        assert answer.state is AgentState.WORKING
    assert (await via.deliver(reserved, framed())).outcome is DeliveryOutcome.NOTHING_WRITTEN
    await desk.finish()
    assert await until_over(via) == [Turn(b"done", "done")]


async def test_a_turn_that_failed_says_so(desk: Desk) -> None:
    via = desk.open("--fail")
    await via.deliver(await reserved_by(via), framed())
    assert await until_over(via) == [Turn(b"done", "error")]


async def test_the_next_daemon_finds_the_program_and_hears_the_turn_it_missed(desk: Desk) -> None:
    first = desk.open("--hold")
    await first.deliver(await reserved_by(first), framed())
    assert await first.state() is AgentState.WORKING
    await first.close()
    second = desk.open("--hold")
    assert await second.state() is AgentState.WORKING, "it is in the turn that the first one began"
    await desk.finish()
    assert await until_over(second) == [Turn(b"done", "done")]
    assert isinstance(await second.reserve("idle"), Reserved)
    assert len(desk.pids()) == 1
    assert desk.open("--hold").turns_over() == [], "nobody hears it again"


async def test_a_program_that_died_is_away_and_comes_back_after_a_pause(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PAUSE_FIRST_S", 60.0)
    via = desk.open("--hold")
    await via.deliver(await reserved_by(via), framed())
    os.kill(desk.pids()[0], signal.SIGKILL)
    await until_state(via, AgentState.GONE)
    assert via.turns_over() == [Turn(None, "error")], "the turn it died in has failed"
    answer = await via.reserve("idle")
    assert isinstance(answer, NotReady)
    assert answer.gone
    assert "started again in" in answer.why
    via._not_before = trio.current_time()  # the pause is over
    await until_state(via, AgentState.IDLE)
    await until("it has begun again", lambda: len(desk.pids()) == 2)


async def test_one_that_dies_again_and_again_is_started_less_and_less_often(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PAUSE_FIRST_S", 0.02)
    via = desk.open(argv=["sh", "-c", f"echo x >>{desk.folder}/starts"])
    pauses = []
    for _ in range(4):
        await until_state(via, AgentState.IDLE)
        await until_state(via, AgentState.GONE)
        pauses.append(via._pause_s)
    assert pauses == [0.04, 0.08, 0.16, 0.32]
    assert (desk.folder / "starts").read_text().count("x") == 4


async def test_a_program_that_reads_nothing_is_unconfirmed_and_not_fed_again(desk: Desk) -> None:
    via = desk.open("--deaf", dialect=STREAM_JSON)
    via._turn_s = 0.2
    done = await via.deliver(await reserved_by(via), framed())
    assert done.outcome is DeliveryOutcome.UNCONFIRMED
    assert await via.state() is AgentState.WORKING, "the message lies in its pipe"


async def test_a_line_that_could_not_be_ended_ends_the_program(desk: Desk) -> None:
    """Else the next message would be glued to its half."""
    via = desk.open("--deaf")
    via._turn_s = 0.2
    reserved = await reserved_by(via)
    await until("it has begun", desk.pids)
    done = await via.deliver(reserved, framed("x" * 300_000))
    assert done.outcome is DeliveryOutcome.UNCONFIRMED
    assert "did not read its message" in done.detail
    assert await via.state() is AgentState.GONE
    assert desk.turns() == []


async def test_what_it_prints_between_turns_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "OUTPUT_KEPT", 400)
    via = desk.open("--answer", "w" * 300)
    for _ in range(4):
        await via.deliver(await reserved_by(via), framed())
        assert await until_over(via) == [Turn(b"w" * 300, "done")]
    assert (desk.folder / "stream" / "out").stat().st_size < 1_000


async def test_a_flood_within_a_turn_ends_the_program(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "OUTPUT_MOST", 100_000)
    via = desk.open(argv=["sh", "-c", "read -r line; exec yes"])
    reserved = await reserved_by(via)
    await via.deliver(reserved, framed())
    await until_state(via, AgentState.GONE)
    assert [turn.how for turn in via.turns_over()] == ["error"]


async def test_letting_it_go_for_good_ends_it_and_takes_its_files_away(desk: Desk) -> None:
    via = desk.open()
    await via.deliver(await reserved_by(via), framed())
    assert stat.S_IMODE((desk.folder / "stream").stat().st_mode) == 0o700
    assert stat.S_IMODE((desk.folder / "stream" / "out").stat().st_mode) == 0o600
    (pid,) = desk.pids()
    await via.end()
    await until("it has ended", lambda: not Path(f"/proc/{pid}").exists())
    assert not (desk.folder / "stream").exists()


async def test_a_program_that_cannot_be_run_is_said(desk: Desk) -> None:
    answer = await desk.open(argv=["/nowhere/agent"]).reserve("idle")
    assert isinstance(answer, NotReady)
    assert "/nowhere/agent cannot be found" in answer.why
    with pytest.raises(ConfigError, match="no command"):
        StreamTransport([], env={}, cwd="", folder=desk.folder, dialect=LINES)


@pytest.mark.parametrize(
    ("read", "line", "said"),
    [
        (LINES.read, b'{"type":"began"}', Began()),
        (LINES.read, b'{"type":"result","text":"yes","more":1}', Turn(b"yes", "done")),
        (LINES.read, b'{"type":"result","error":true}', Turn(None, "error")),
        (LINES.read, b'{"type":"result","text":7}', Turn(None, "error")),
        (LINES.read, b'{"type":7}', None),
        (LINES.read, b'[{"type":"result"}]', None),
        (LINES.read, b"\xff\xfe not JSON", None),
        (LINES.read, b"", None),
        (STREAM_JSON.read, b'{"type":"system","subtype":"init","session_id":"s"}', Began()),
        (STREAM_JSON.read, b'{"type":"assistant","message":{"content":[]}}', Began()),
        (STREAM_JSON.read, b'{"type":"a kind of a newer version"}', None),
        (STREAM_JSON.read, b'{"type":"result","subtype":"success","result":"\\ud800 yes"}', Turn(b"? yes", "done")),
        (LINES.read, b"[" * 200_000, None),
        (
            STREAM_JSON.read,
            b'{"type":"result","subtype":"error_max_turns","is_error":true}',
            Turn(None, "error"),
        ),
    ],
)
def test_every_line_of_a_program_means_something_or_nothing(
    read: Callable[[bytes], object], line: bytes, said: object
) -> None:
    assert read(line) == said


def test_last_words_keep_their_end() -> None:
    turn = LINES.read(json.dumps({"type": "result", "text": "x" * 200_000 + " all green"}).encode())
    assert isinstance(turn, Turn)
    assert turn.words is not None
    assert turn.words.endswith(b" all green")
    assert len(turn.words) < 60_000
