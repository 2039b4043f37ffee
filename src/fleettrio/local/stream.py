"""Transport into a program that stays and is fed a line for each message: `claude -p` with stream-json, or a script.

Rules:

1. One turn at a time: from its message until its result line the agent is working, and nothing else is put in,
   whatever the `when`.
2. `submitted`: its turn was seen to begin or to end, or (for programs that say no more) it has read its line.
3. It is started when it is looked at and does not run. One that died is away, and is started again after a pause that
   doubles with each death that follows soon, up to a minute. The turn it died in has failed.
4. It outlives the daemon (`resident`), and is ended when its agent is detached or gets another command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from fleettrio.errors import ConfigError
from fleettrio.local.dialects import STREAM_JSON, Dialect
from fleettrio.local.pauses import Pauses
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text, Turn
from fleettrio.local.process import find_program
from fleettrio.local.resident import Flood, Resident
from fleettrio.observe import get_logger

__all__ = ("StreamTransport",)

TURN_S = 10.0
"""How long a program has to show that it took its message."""
PAUSE_FIRST_S, PAUSE_MOST_S = 1.0, 60.0
POLL_S = 0.02
_UNHEARD_MOST = 64
"""Turns that are over and nobody asked about."""

log = get_logger("stream")


class StreamTransport:
    """Keeps `argv` (no shell) running in `cwd` with exactly `env`. `folder` is the agent's own."""

    name = "stream"
    wakes = True

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        folder: Path,
        dialect: Dialect,
        turn_s: float = TURN_S,
    ) -> None:
        if not argv:
            raise ConfigError(["no command was given for a stream agent"], hint="attach it with --command … --stream")
        self._program, self._cwd, self._path = argv[0], cwd, env.get("PATH")
        self._resident = Resident(argv, env=env, cwd=cwd, folder=folder)
        self._dialect = dialect
        self._turn_s = turn_s
        self._over: list[Turn] = []
        self._was_alive = self._resident.is_alive
        self._born_at = float("-inf")
        self._pause_s, self._not_before = PAUSE_FIRST_S, float("-inf")
        self._began = False

    async def state(self) -> AgentState:
        """Reads what it said, and starts it when it does not run."""
        found = await self._look()
        return found.state

    async def reserve(self, when: str) -> Reserved | NotReady:
        return await self._look()

    def glance(self) -> Reserved | None:
        is_flood = not self._listen()
        if is_flood or not self._resident.is_alive or self._resident.in_turn:
            return None
        return Reserved(self._resident.generation, AgentState.IDLE)

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """Feed the message. Takes at most the bound for evidence. Cancelled after the first byte, it is in the program
        whole, or the program is ended.
        """
        if not self._resident.is_alive or self._resident.generation != reserved.generation:
            return Delivery.nothing("its program ended since it was looked at")
        if self._resident.in_turn:
            return Delivery.nothing("its program was fed another message meanwhile")
        try:
            self._resident.note(in_turn=True)
        except OSError as error:
            self._resident.in_turn = False
            return Delivery.nothing(f"its folder cannot be written: {error.strerror}")
        self._began = False
        fed = False
        with trio.move_on_after(self._turn_s):
            try:
                await self._resident.feed(self._dialect.feed(text))
                fed = True
            except OSError as error:
                return Delivery.unconfirmed(f"its program ended as it was fed: {error.strerror}")
            return await self._evidence()
        what = "took it and shows no turn" if fed else "did not read its message"
        return Delivery.unconfirmed(f"its program {what} within {self._turn_s:g} s")

    def turns_over(self) -> list[Turn]:
        over, self._over = self._over, []
        return over

    async def end(self) -> None:
        """End the program and take its files away."""
        await self._resident.end()
        self._resident.forget()

    async def close(self) -> None:
        """Nothing is held; the program lives on."""

    async def _evidence(self) -> Delivery:
        looks = Pauses(POLL_S)
        while True:
            heard = len(self._over)
            await self._hear()
            has_read = self._dialect is not STREAM_JSON and self._resident.has_taken_all()
            if self._began or len(self._over) > heard or has_read:
                return Delivery(DeliveryOutcome.SUBMITTED, self._program, saw_work=True)
            if not self._resident.is_alive:
                return Delivery.unconfirmed("its program ended before it showed a turn")
            await looks.pause()

    async def _look(self) -> Reserved | NotReady:
        await self._hear()
        if not self._resident.is_alive:
            return self._revive()
        self._was_alive = True
        if self._resident.in_turn:
            return NotReady(AgentState.WORKING, "it is working on an earlier message")
        return Reserved(self._resident.generation, AgentState.IDLE)

    def _revive(self) -> Reserved | NotReady:
        """It does not run: say so once, and start it when its pause is over."""
        now = trio.current_time()
        if self._was_alive:
            self._was_alive = False
            lived_long = now - self._born_at > PAUSE_MOST_S
            self._pause_s = PAUSE_FIRST_S if lived_long else self._pause_s
            self._not_before, self._pause_s = now + self._pause_s, min(self._pause_s * 2, PAUSE_MOST_S)
            if self._resident.in_turn:
                self._end_turn(Turn(None, "error"))
        if now < self._not_before:
            wait_s = self._not_before - now
            return NotReady(AgentState.GONE, f"its program ended; it is started again in {wait_s:.0f} s", gone=True)
        if find_program(self._program, self._cwd, self._path) is None:
            return NotReady(AgentState.UNKNOWN, f"its program {self._program} cannot be found or run")
        try:
            self._resident.start()
        except OSError as error:
            return NotReady(AgentState.UNKNOWN, f"{self._program} could not be started: {error.strerror}")
        log.info("program started", program=self._program, process=self._resident.generation)
        self._was_alive, self._born_at = True, now
        return Reserved(self._resident.generation, AgentState.IDLE)

    async def _hear(self) -> None:
        """Read what it said. A flood ends it."""
        if not self._listen():
            log.warning("program ended: more output than anybody will read", program=self._program)
            await self._resident.end()

    def _listen(self) -> bool:
        """The same; False: it is a flood."""
        try:
            for line in self._resident.lines():
                match self._dialect.read(line):
                    case Turn() as turn:
                        if self._resident.in_turn:
                            self._end_turn(turn)
                    case None:
                        continue
                    case _:
                        self._began = True
        except Flood:
            return False
        except OSError as error:
            log.warning("output of a program not read", program=self._program, problem=str(error))
        return True

    def _end_turn(self, turn: Turn) -> None:
        try:
            self._resident.note(in_turn=False)
        except OSError as error:  # the next daemon would hear this turn end once more, and that changes nothing
            log.warning("where a program stands is not kept", program=self._program, problem=str(error))
        self._over = [*self._over, turn][-_UNHEARD_MOST:]
