"""Into a Codex thread by its own command: one line, the echo as evidence, and what its exit codes can say."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import trio

from fleettrio.errors import ConfigError
from fleettrio.local.codexqueue import CodexQueue
from fleettrio.local.echoes import Echoes, carries_frame
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved
from fleettrio.testing.agents.room import until
from fleettrio.testing.transport_case import framed

PROGRAM = """#!/bin/sh
# Stands in for codex, as far as its queue goes: writes down what it was given.
[ "$1" = queue ] || exit 2
[ "$2" = --help ] && exit {help}
[ "$2" = --thread ] && [ "$4" = --message ] && [ $# = 5 ] || exit 2
printf '%s\\n%s\\n' "$3" "$5" >>"{log}"
echo "no such thread" >&2
exit {code}
"""
SECRET = "the body that nobody reads on a command line"


class Codex:
    """A program called codex, alone on the path, and the way by it."""

    def __init__(self, folder: Path, *, code: int = 0, able: int = 0) -> None:
        self.log = folder / "queued"
        self.path = folder / "bin"
        self.path.mkdir()
        program = self.path / "codex"
        program.write_text(PROGRAM.format(log=self.log, code=code, help=able))
        program.chmod(0o755)
        self.env = {"PATH": f"{self.path}{os.pathsep}{os.defpath}"}

    def queued(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


async def given(via: CodexQueue) -> Delivery:
    reserved = await via.reserve("idle")
    assert isinstance(reserved, Reserved), reserved
    return await via.deliver(reserved, framed(SECRET))


async def test_a_line_that_its_prompt_hook_gives_back_is_submitted(tmp_path: Path) -> None:
    codex, echoes = Codex(tmp_path), Echoes()
    via = CodexQueue("thread-1", env=codex.env, echoes=echoes)
    done: list[Delivery] = []

    async def deliver() -> None:
        done.append(await given(via))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(deliver)
        await until("it is queued", lambda: len(codex.queued()) == 2)
        await until("it is heard", lambda: echoes.heard(codex.queued()[1]))
    assert done[0].outcome is DeliveryOutcome.SUBMITTED


async def test_the_command_line_names_the_inbox_and_shows_no_body(tmp_path: Path) -> None:
    codex = Codex(tmp_path)
    done = await given(CodexQueue("thread-1", env=codex.env))
    assert done.outcome is DeliveryOutcome.UNCONFIRMED, "nobody listens for an echo"
    thread, line = codex.queued()
    assert thread == "thread-1"
    assert SECRET not in line
    assert "fleettrio show 9c41d2aa" in line
    assert carries_frame(line), "no prompt hook takes it for a person's words"


async def test_queued_without_an_echo_is_unconfirmed(tmp_path: Path) -> None:
    via = CodexQueue("thread-1", env=Codex(tmp_path).env, echoes=Echoes(), echo_s=0.05)
    done = await given(via)
    assert done.outcome is DeliveryOutcome.UNCONFIRMED
    assert "no prompt hook" in done.detail


@pytest.mark.parametrize(("code", "outcome"), [(2, "nothing-written"), (1, "unconfirmed")])
async def test_a_failed_command_may_have_queued_it_unless_its_words_were_refused(
    tmp_path: Path, code: int, outcome: str
) -> None:
    done = await given(CodexQueue("thread-1", env=Codex(tmp_path, code=code).env))
    assert str(done.outcome) == outcome
    assert "no such thread" in done.detail


async def test_a_codex_that_is_not_there_or_too_old_is_no_way(tmp_path: Path) -> None:
    for env, why in (({"PATH": str(tmp_path)}, "no program codex"), (Codex(tmp_path, able=2).env, "update Codex")):
        via = CodexQueue("thread-1", env=env)
        answer = await via.reserve("idle")
        assert isinstance(answer, NotReady)
        assert answer.gone, "another way is tried"
        assert why in answer.why
        assert await via.state() is AgentState.GONE


@pytest.mark.parametrize("thread", ["", "--help", "a b", "x;y", "t" * 200, json.dumps("x")])
def test_what_can_be_no_thread_is_refused(thread: str) -> None:
    with pytest.raises(ConfigError, match="not the id of a Codex thread"):
        CodexQueue(thread, env={})
