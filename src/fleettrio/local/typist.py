"""Transport into a program in a terminal: look, paste, wait for the echo, look again, Enter, wait for a turn.

Rules:

1. Before the first byte everything is looked at twice: by `reserve`, and by `deliver` under the terminal's lock. What
   was not the same both times ends `nothing-written`.
2. Enter is pressed only while our own text is seen to stand in the composer, by its nonce or the program's sign for a
   paste: a paste vanishes in a dialog, and Enter there approves. The multiplexer looks once more, if it can. No echo, a
   dialog (also one that no harness knows), copy mode or an emptied composer end `unconfirmed`, without Enter.
3. `submitted` needs evidence that a turn began: the screen's, or the word of the prompt hook. Without it the other form
   of Enter is tried once, and only while the text still stands there. The paste is never repeated.
4. At a shell's prompt nothing is typed, for whatever harness: the shell would run it. A program nobody described may
   not have been started yet, so its message waits; any other harness's agent has ended. An agent that was suspended is
   not the program in front, and waits.
5. Into an agent that works (`now`) the text is queued at best: `unconfirmed` (mid-turn), unless its hook heard it.
6. Into a program that knows no paste goes one fixed line, and never a longer one than its terminal keeps.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Protocol

import trio

from fleettrio.local.echoes import Echoes
from fleettrio.local.harness import Harness, not_ready
from fleettrio.local.look import Look, look_at, trouble
from fleettrio.local.pauses import Pauses
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text
from fleettrio.observe import failpoint
from fleettrio.panes.foreground import MOST_OF_A_LINE
from fleettrio.panes.terminal import EnterForm, Screen, TerminalError

__all__ = ("Terminal", "Typist")

FIRST_POLL_S, POLL_S = 0.005, 0.05
"""A look at a terminal costs as much as that."""
ECHO_S = 2.0
"""How long the hook's word is waited for when the text left a working agent's composer."""
OTHER_FORM: dict[EnterForm, EnterForm] = {"Enter": "C-m", "C-m": "Enter"}

_locks: weakref.WeakValueDictionary[tuple[str, str], trio.Lock] = weakref.WeakValueDictionary()
"""One lock a terminal, whoever holds a transport into it."""


class Terminal(Protocol):
    """One terminal of a multiplexer, as far as an agent in it can be looked at and typed into.

    Every method raises `TerminalError`, whose `may_have_run` says whether bytes may have gone in.
    """

    @property
    def name(self) -> str:
        """What people call it: `pane %3`. The same one has the same name."""

    async def look(self, *, joined: bool) -> Screen | None:
        """What it shows and what runs there, of one moment; None when it is no more. `joined`: wrapped rows are one."""

    async def paste(self, data: bytes, *, framed: bool) -> bool:
        """Put `data` in as one paste, in paste brackets if `framed` and the program takes them. False: not a byte."""

    async def press(self, form: EnterForm, shown: str) -> bool:
        """Press Enter; where it can, only while the word `shown` is on the screen. False: it was not pressed."""


class Typist:
    """Types into `terminal`, where `harness` runs. `name` is the transport's.

    `born`: the process that the terminal was opened with; None: whichever it has at the first look. `program`: the
    agent's own process, where a shell started it; 0: not known. `echoes`: where its prompt hook is heard.
    """

    wakes = True

    def __init__(
        self,
        name: str,
        terminal: Terminal,
        harness: Harness,
        *,
        born: int | None = None,
        program: int = 0,
        echoes: Echoes | None = None,
    ) -> None:
        self.name = name
        self._terminal = terminal
        self._harness = harness
        self._lock = _locks.setdefault((name, terminal.name), trio.Lock())
        self._born = born
        self._program = program
        self._echoes = echoes
        self._seen = AgentState.UNKNOWN

    async def state(self) -> AgentState:
        """Look, change nothing. While it cannot be looked at the state is what it was last, at first `unknown`."""
        with contextlib.suppress(TerminalError):
            self._seen = self._judge(await self._look(), "now").state
        return self._seen

    async def reserve(self, when: str) -> Reserved | NotReady:
        """All checks for a delivery with `when`. Writes nothing."""
        try:
            look = await self._look()
        except TerminalError as error:
            return NotReady(AgentState.UNKNOWN, str(error))
        return self._judge(look, when)

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """Paste `text` and submit it. Takes at most two of the harness's echo bounds and two of its turn bounds."""
        async with self._lock:
            try:
                look = await self._look()
            except TerminalError as error:
                return Delivery.nothing(str(error))
            # A reservation of a working agent was one for `now`.
            judged = self._judge(look, "now" if reserved.state is AgentState.WORKING else "idle")
            if isinstance(judged, NotReady):
                return Delivery.nothing(judged.why)
            if judged.generation != reserved.generation:
                return Delivery.nothing("another program has the terminal since it was looked at")
            assert look is not None  # it was judged
            return await self._put(text, look)

    async def close(self) -> None:
        """Nothing is held."""

    async def _put(self, text: Text, look: Look) -> Delivery:
        is_whole = self._takes_whole(text, look)
        data, mark = (text.framed, text.nonce) if is_whole else (text.notice, text.short_id)
        if look.takes_lines and len(data.encode()) > MOST_OF_A_LINE:
            return Delivery.nothing(f"its terminal keeps {MOST_OF_A_LINE} bytes of a line; this one is longer")
        try:
            if not await self._terminal.paste(data.encode(), framed=self._harness.bracketed_paste):
                return Delivery.nothing("the terminal died or went into copy mode")
        except TerminalError as error:
            return Delivery.unconfirmed(str(error)) if error.may_have_run else Delivery.nothing(str(error))
        failpoint("R5-pasted")
        heard = self._echoes.expect(mark) if self._echoes else trio.Event()
        try:
            return await self._submit(mark, heard, mid_turn=look.reading.state is AgentState.WORKING)
        except TerminalError as error:
            return Delivery.unconfirmed(f"after the paste: {error}")

    def _takes_whole(self, text: Text, look: Look) -> bool:
        if look.takes_lines or look.screen.facts.takes_brackets is False:
            return False
        return self._harness.bracketed_paste and len(text.framed.encode()) <= self._harness.max_bytes

    async def _submit(self, mark: str, heard: trio.Event, *, mid_turn: bool) -> Delivery:
        """The paste is in, `mark` is a word of it: see it, press Enter, see a turn begin, or hear of it."""
        echo = await self._until(
            self._harness.echo_s, lambda look: not look.takes_enter or look.holds(mark, self._harness)
        )
        if echo is None:
            return Delivery.unconfirmed("the paste was not seen in the composer; Enter was not pressed")
        # Output that comes anyway (a clock, a spinner) is no sign of a turn.
        ready, quiet = await self._settle(echo, patient=self._harness.output_is_evidence and not mid_turn)
        first = self._harness.enter
        for form in (first, OTHER_FORM[first]):
            if ready is None or ready.at_shell_prompt or not ready.takes_enter:
                return Delivery.unconfirmed(f"{trouble(ready)}; Enter was not pressed")
            if not ready.holds(mark, self._harness):
                return Delivery.unconfirmed("the text is not in the composer any more; Enter was not pressed")
            if not await self._terminal.press(form, ready.word_of(mark, self._harness)):
                return Delivery.unconfirmed(f"{trouble(await self._look())}; Enter was not pressed")
            began = await self._until(self._harness.turn_s, self._beginning(ready, quiet, heard))
            if began is not None:
                return await self._verdict(began, heard, mid_turn=mid_turn)
            ready = await self._look()
        return Delivery.unconfirmed("no turn was seen to begin, by neither form of Enter")

    async def _settle(self, look: Look, *, patient: bool) -> tuple[Look | None, bool]:
        """Let the program digest the paste; how it looks then, and whether its screen came to rest. Waits for that, for
        a bounded time, only if `patient`."""
        until = trio.current_time() + self._harness.echo_s
        while True:
            await trio.sleep(self._harness.settle_s)
            now = await self._look()
            is_at_rest = now is not None and now.words() == look.words()
            if now is None or is_at_rest or not patient or trio.current_time() >= until:
                return now, is_at_rest
            look = now

    async def _verdict(self, began: Look, heard: trio.Event, *, mid_turn: bool) -> Delivery:
        if self._echoes is not None and mid_turn:
            with trio.move_on_after(ECHO_S):
                await heard.wait()
        if heard.is_set():
            return Delivery(DeliveryOutcome.SUBMITTED)
        if not began.takes_enter:
            return Delivery.unconfirmed(f"{trouble(began)} as Enter was pressed")
        if mid_turn:
            return Delivery.unconfirmed("mid-turn: it was taken from the composer of a working agent")
        return Delivery(DeliveryOutcome.SUBMITTED)

    def _beginning(self, ready: Look, quiet: bool, heard: trio.Event) -> Callable[[Look], bool]:
        """The test for evidence that a turn began after `ready`; also true once nothing more can be learnt."""

        def test(look: Look) -> bool:
            if heard.is_set() or not look.takes_enter or look.reading.draft == "":
                return True
            if look.reading.state is AgentState.WORKING and ready.reading.state is not AgentState.WORKING:
                return True
            if self._harness.composer_is_last_line and look.reading.draft is None and ready.reading.draft is not None:
                return True
            return self._harness.output_is_evidence and quiet and bool(look.words() - ready.words())

        return test

    def _judge(self, look: Look | None, when: str) -> Reserved | NotReady:
        """Whether something may be put in now."""
        if look is None:
            return NotReady(AgentState.GONE, f"the {self._terminal.name} does not exist", gone=True)
        facts, reading = look.screen.facts, look.reading
        if facts.dead:
            return NotReady(AgentState.GONE, f"the program in {self._terminal.name} has ended", gone=True)
        if self._born != facts.pid:
            return NotReady(AgentState.GONE, f"another program was started in {self._terminal.name}", gone=True)
        if look.at_shell_prompt and self._harness.bracketed_paste:
            return NotReady(
                AgentState.GONE, f"the agent has ended: {self._terminal.name} is at a shell prompt", gone=True
            )
        if look.at_shell_prompt:
            return NotReady(AgentState.UNKNOWN, "a shell is at the prompt of this pane; start the agent there")
        if not look.is_in_front:
            return NotReady(AgentState.UNKNOWN, f"another program is in front of it in {self._terminal.name}")
        if facts.in_mode:
            return NotReady(reading.state, "its pane is in copy mode")
        return not_ready(reading.state, reading.draft, when) or Reserved(look.generation, reading.state)

    async def _look(self) -> Look | None:
        screen = await self._terminal.look(joined=self._harness.composer_is_last_line)
        if screen is None:
            return None
        if self._born is None:
            self._born = screen.facts.pid
        return look_at(screen, self._harness, self._program)

    async def _until(self, bound_s: float, test: Callable[[Look], bool]) -> Look | None:
        """The first look that passes `test`, None after `bound_s`. Raises `TerminalError` for one that is no more."""
        looks = Pauses(POLL_S, first_s=FIRST_POLL_S)
        with trio.move_on_after(bound_s):
            while True:
                look = await self._look()
                if look is None:
                    raise TerminalError(f"the {self._terminal.name} is gone", may_have_run=True)
                if test(look):
                    return look
                await looks.pause()
        return None
