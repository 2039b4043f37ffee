"""The contract of transports, on every transport there is: the cases are in `fleettrio.testing.transport_contract`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fleettrio.local.ladder import Ladder
from fleettrio.testing.bench import TERMINAL, Situation
from fleettrio.testing.herdr_bench import HerdrBench
from fleettrio.testing.herdr_server import HerdrServer
from fleettrio.testing.terminals import TmuxBench
from fleettrio.testing.transport_contract import Case, cases
from tests.local.benches import HttpBench, ProcessBench, TalkerBench

if TYPE_CHECKING:
    from pathlib import Path

    from fleettrio.testing.agents.room import TmuxRoom


@pytest.mark.parametrize("case", cases(TmuxBench), ids=str)
async def test_tmux(case: Case, room: TmuxRoom) -> None:
    await case.run(TmuxBench(room))


@pytest.mark.parametrize("case", cases(ProcessBench), ids=str)
async def test_a_command_for_each_message(case: Case, tmp_path: Path) -> None:
    bench = ProcessBench(tmp_path)
    try:
        await case.run(bench)
    finally:
        for agent in bench.agents:
            agent.end()


@pytest.mark.parametrize("case", cases(TalkerBench), ids=str)
async def test_a_program_that_stays(case: Case, tmp_path: Path) -> None:
    bench = TalkerBench(tmp_path)
    try:
        await case.run(bench)
    finally:
        for agent in bench.agents:
            await agent.end()


@pytest.mark.parametrize("case", cases(HttpBench), ids=str)
async def test_the_server_of_opencode(case: Case) -> None:
    bench = HttpBench()
    try:
        await case.run(bench)
    finally:
        for server in bench.servers:
            server.close()


@pytest.mark.parametrize("case", cases(HerdrBench), ids=str)
async def test_herdr(case: Case) -> None:
    with HerdrServer() as server:
        await case.run(HerdrBench(server))


async def test_a_ladder_is_a_transport_like_any(room: TmuxRoom) -> None:
    (case,) = [case for case in cases(TmuxBench) if case.name == "a_message_is_one_turn"]
    await case.run(TmuxBench(room, wrap=lambda via: Ladder([via])))


def test_what_types_into_a_terminal_is_tried_in_every_situation() -> None:
    assert TmuxBench.starts | TmuxBench.becomes == TERMINAL
    assert TERMINAL - (HerdrBench.starts | HerdrBench.becomes) == {Situation.HIDDEN}, "herdr has no copy mode to ask of"
    assert len(cases(TmuxBench)) >= 20


def test_every_case_says_what_it_promises() -> None:
    assert [case.name for case in cases(TmuxBench) if not case.promise] == []
