"""Transport into a Codex thread by `codex queue`, for one that runs in no pane: the program wakes its session itself.

Rules:

1. What stands on a command line can be read by every user of the machine. So a message goes as one line that names the
   inbox, marked with the nonce of the delivery; its body is fetched by the agent. Nobody is reached this way unless
   a person chose it (`attach --transport codex-queue`).
2. Nothing is seen of the session: its state comes from its hooks.
3. The command's good end says queued, no more. `submitted` needs the echo of the prompt hook; without it the outcome is
   `unconfirmed`. A command line that Codex does not take was not queued; any other failure may have been.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from typing import Final

import trio

from fleettrio.errors import ConfigError
from fleettrio.local.echoes import Echoes
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text
from fleettrio.local.process import find_program
from fleettrio.local.sanitise import one_line

__all__ = ("CodexQueue",)

ECHO_S: Final = 20.0
"""It was seen to take about six seconds from the command to the turn."""
COMMAND_LIMIT_S: Final = 15.0
_USAGE = 2
_THREAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class CodexQueue:
    """Into the thread `thread`. Raises `ConfigError` for what can be no id of one. `env` is that of the command."""

    name = "codex-queue"
    wakes = True

    def __init__(
        self, thread: str, *, env: Mapping[str, str], echoes: Echoes | None = None, echo_s: float = ECHO_S
    ) -> None:
        if _THREAD.fullmatch(thread) is None:
            raise ConfigError([f"{thread!r} is not the id of a Codex thread"], hint="Codex shows it in /status")
        self._thread = thread
        self._env = dict(env)
        self._echoes = echoes
        self._echo_s = echo_s
        self._able = ""
        """The program that was seen to know the command."""

    async def state(self) -> AgentState:
        """Gone without a Codex that can do it; more is not seen."""
        return AgentState.GONE if await self._missing() else AgentState.UNKNOWN

    async def reserve(self, when: str) -> Reserved | NotReady:
        if why := await self._missing():
            return NotReady(AgentState.GONE, why, gone=True)
        return Reserved(self._thread, AgentState.UNKNOWN)

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """Queue the line. Takes at most the bounds of the command and of the echo. Cancelled, it may be queued."""
        if reserved.generation != self._thread:
            return Delivery.nothing("it was reserved for another thread")
        echo = self._echoes.expect(text.nonce) if self._echoes else None
        line = f"[fleettrio {text.nonce}] {text.notice}"
        done = await self._run("queue", "--thread", self._thread, "--message", line)
        if done is None or done.returncode != 0:
            said = one_line(done.stderr, 200) if done else f"it was not over within {COMMAND_LIMIT_S:g} s"
            was_refused = done is not None and done.returncode == _USAGE
            outcome = DeliveryOutcome.NOTHING_WRITTEN if was_refused else DeliveryOutcome.UNCONFIRMED
            return Delivery(outcome, f"codex queue failed: {said}")
        if echo is not None:
            with trio.move_on_after(self._echo_s):
                await echo.wait()
                return Delivery(DeliveryOutcome.SUBMITTED, "its prompt hook gave it back", saw_work=True)
        return Delivery.unconfirmed("codex queued it; no prompt hook told of a turn with it")

    async def close(self) -> None:
        """Nothing is held."""

    async def _missing(self) -> str:
        """Why this is no way; empty when it is one. The program is asked what it can do once."""
        program = find_program("codex", "", self._env.get("PATH"))
        if program is None:
            return "there is no program codex that the daemon can run"
        if program != self._able:
            done = await self._run("queue", "--help")
            if done is None or done.returncode != 0:
                return f"{program} has no command queue: update Codex"
            self._able = program
        return ""

    async def _run(self, *words: str) -> subprocess.CompletedProcess[bytes] | None:
        """None: it was not over in time, and was ended."""
        with trio.move_on_after(COMMAND_LIMIT_S):
            try:
                return await trio.run_process(
                    ["codex", *words],
                    stdin=b"",
                    capture_stdout=True,
                    capture_stderr=True,
                    check=False,
                    env=self._env,
                )
            except OSError as error:
                return subprocess.CompletedProcess(words, _USAGE, b"", str(error).encode())
        return None
