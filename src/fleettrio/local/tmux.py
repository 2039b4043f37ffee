"""Transport into a program in a tmux pane: look, paste, wait for the echo, look again, Enter, wait for a turn.

Rules:

1. Before the first byte everything is looked at twice: by `reserve`, and by `deliver` under the pane's lock. What was
   not the same both times ends `nothing-written`.
2. Enter is pressed only while our own text is seen to stand in the composer, by its nonce or the program's sign for a
   paste: a paste vanishes in a dialog, and Enter there approves. So no echo, a dialog (also one that no harness knows),
   copy mode or an emptied composer end `unconfirmed`, without Enter.
3. `submitted` needs evidence that a turn began. Without it the other form of Enter is tried once, and only while the
   text still stands there. The paste is never repeated.
4. At a shell's prompt nothing is typed, for whatever harness: the shell would run it. A program nobody described may
   not have been started yet, so its message waits; any other harness's agent has ended.
5. Into an agent that works (`now`) the text is queued at best: `unconfirmed` (mid-turn).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import re
import weakref
from collections.abc import Callable, Mapping

import trio

from fleettrio.local.harness import Harness, Reading, read_screen
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text
from fleettrio.observe import failpoint
from fleettrio.panes.foreground import foreground
from fleettrio.panes.tmux import EnterForm, Screen, Tmux, TmuxError, parse_target

__all__ = ("TmuxTransport",)

POLL_S = 0.05
OTHER_FORM: dict[EnterForm, EnterForm] = {"Enter": "C-m", "C-m": "Enter"}

_locks: weakref.WeakValueDictionary[tuple[str | None, str], trio.Lock] = weakref.WeakValueDictionary()
"""One lock a pane, whoever holds a transport into it."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    screen: Screen
    reading: Reading
    generation: str
    at_shell_prompt: bool

    @property
    def is_open(self) -> bool:
        """Whether keys would reach the program at all."""
        return not (self.screen.facts.dead or self.screen.facts.in_mode)


class TmuxTransport:
    """Into the pane `target` (`%3`, `socket:%3`), which runs `harness`. Raises `ConfigError` for another target."""

    name = "tmux"
    wakes = True

    def __init__(self, target: str, harness: Harness, *, env: Mapping[str, str] | None = None) -> None:
        socket, self._pane = parse_target(target)
        self._tmux = Tmux(socket, env)
        self._harness = harness
        self._lock = _locks.setdefault((socket, self._pane), trio.Lock())
        self._born: int | None = None
        self._seen = AgentState.UNKNOWN

    async def state(self) -> AgentState:
        """Look, change nothing. While tmux cannot be asked the state is what it was last, at first `unknown`."""
        with contextlib.suppress(TmuxError):
            self._seen = self._judge(await self._look(), "now").state
        return self._seen

    async def reserve(self, when: str) -> Reserved | NotReady:
        """All checks for a delivery with `when`. Writes nothing."""
        try:
            look = await self._look()
        except TmuxError as error:
            return NotReady(AgentState.UNKNOWN, str(error))
        return self._judge(look, when)

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """Paste `text` and submit it. Takes at most two of the harness's echo bounds and two of its turn bounds."""
        async with self._lock:
            try:
                look = await self._look()
            except TmuxError as error:
                return _nothing(str(error))
            # A reservation of a working agent was one for `now`.
            judged = self._judge(look, "now" if reserved.state is AgentState.WORKING else "idle")
            if isinstance(judged, NotReady):
                return _nothing(judged.why)
            if judged.generation != reserved.generation:
                return _nothing("another program has the pane since it was looked at")
            whole = self._takes_whole(text)
            try:
                if not await self._tmux.paste(self._pane, (text.framed if whole else text.notice).encode()):
                    return _nothing("the pane died or went into copy mode")
            except TmuxError as error:
                return _unconfirmed(str(error)) if error.may_have_run else _nothing(str(error))
            failpoint("R5-pasted")
            try:
                return await self._submit(
                    text.nonce if whole else text.short_id, mid_turn=judged.state is AgentState.WORKING
                )
            except TmuxError as error:
                return _unconfirmed(f"after the paste: {error}")

    async def close(self) -> None:
        """Nothing is held."""

    def _takes_whole(self, text: Text) -> bool:
        return self._harness.bracketed_paste and len(text.framed.encode()) <= self._harness.max_bytes

    async def _submit(self, mark: str, *, mid_turn: bool) -> Delivery:
        """The paste is in, `mark` is a word of it: see it, press Enter, see a turn begin."""
        echo = await self._until(
            self._harness.echo_s, lambda look: not self._takes_enter(look) or self._stands(look, mark)
        )
        if echo is None:
            return _unconfirmed("the paste was not seen in the composer; Enter was not pressed")
        # Output that comes anyway (a clock, a spinner) is no sign of a turn.
        quiet = await self._settle(echo, patient=self._harness.output_is_evidence and not mid_turn)
        first = self._harness.enter
        for form in (first, OTHER_FORM[first]):
            ready = await self._look()
            if ready is None or ready.at_shell_prompt or not self._takes_enter(ready):
                return _unconfirmed(f"{_trouble(ready)}; Enter was not pressed")
            if not self._stands(ready, mark):
                return _unconfirmed("the text is not in the composer any more; Enter was not pressed")
            if not await self._tmux.send_enter(self._pane, form):
                return _unconfirmed("the pane died or went into copy mode; Enter was not pressed")
            began = await self._until(self._harness.turn_s, self._beginning(ready, quiet))
            if began is not None:
                return self._verdict(began, mid_turn=mid_turn)
        return _unconfirmed("no turn was seen to begin, by neither form of Enter")

    async def _settle(self, look: _Look, *, patient: bool) -> bool:
        """Let the program digest the paste; True when its screen came to rest. Waits for that only if `patient`."""
        with trio.move_on_after(self._harness.echo_s):
            while True:
                await trio.sleep(self._harness.settle_s)
                now = await self._look()
                if now is None or not patient or _words(now) == _words(look):
                    return now is not None and _words(now) == _words(look)
                look = now
        return False

    def _verdict(self, began: _Look, *, mid_turn: bool) -> Delivery:
        if not self._takes_enter(began):
            return _unconfirmed(f"{_trouble(began)} as Enter was pressed")
        if mid_turn:
            return _unconfirmed("mid-turn: it was taken from the composer of a working agent")
        return Delivery(DeliveryOutcome.SUBMITTED)

    def _beginning(self, ready: _Look, quiet: bool) -> Callable[[_Look], bool]:
        """The test for evidence that a turn began after `ready`; also true once nothing more can be learnt."""

        def test(look: _Look) -> bool:
            if not self._takes_enter(look) or look.reading.draft == "":
                return True
            if look.reading.state is AgentState.WORKING and ready.reading.state is not AgentState.WORKING:
                return True
            if self._harness.composer_is_last_line and look.reading.draft is None and ready.reading.draft is not None:
                return True
            return self._harness.output_is_evidence and quiet and bool(_words(look) - _words(ready))

        return test

    def _takes_enter(self, look: _Look) -> bool:
        return look.is_open and look.reading.state is not AgentState.BLOCKED

    def _stands(self, look: _Look, mark: str) -> bool:
        """Whether the composer holds our text. A long one may push the prompt off the screen; its end is seen then."""
        draft = look.reading.draft
        if draft is None:
            return mark in "".join(look.screen.lines)
        pasted = self._harness.pasted
        # A narrow pane may break the line inside the mark.
        return mark in draft.replace("\n", "") or (pasted is not None and pasted.search(draft) is not None)

    def _judge(self, look: _Look | None, when: str) -> Reserved | NotReady:
        """Whether something may be put in now."""
        if look is None:
            return NotReady(AgentState.GONE, f"the pane {self._pane} does not exist", gone=True)
        facts, reading = look.screen.facts, look.reading
        if facts.dead:
            return NotReady(AgentState.GONE, f"the program in pane {self._pane} has ended", gone=True)
        if self._born != facts.pid:
            return NotReady(AgentState.GONE, f"another program was started in pane {self._pane}", gone=True)
        if look.at_shell_prompt and self._harness.bracketed_paste:
            return NotReady(AgentState.GONE, f"the agent has ended: pane {self._pane} is at a shell prompt", gone=True)
        if look.at_shell_prompt:
            return NotReady(AgentState.UNKNOWN, "a shell is at the prompt of this pane; start the agent there")
        if facts.in_mode:
            return NotReady(reading.state, "its pane is in copy mode")
        if reading.state is AgentState.BLOCKED:
            return NotReady(reading.state, "it is at a dialog or a permission prompt")
        if reading.state is AgentState.WORKING and when != "now":
            return NotReady(reading.state, "it is working")
        if reading.draft is None:
            return NotReady(reading.state, "its composer is not on the screen")
        if reading.draft:
            return NotReady(reading.state, "a draft is in its composer")
        return Reserved(look.generation, reading.state)

    async def _look(self) -> _Look | None:
        screen = await self._tmux.look(self._pane, joined=self._harness.composer_is_last_line)
        if screen is None:
            return None
        facts = screen.facts
        if self._born is None:
            self._born = facts.pid
        front = foreground(facts)
        generation = f"{facts.pane}/{facts.pid}/{front.group}"
        return _Look(screen, read_screen(self._harness, screen), generation, front.at_shell_prompt)

    async def _until(self, bound_s: float, test: Callable[[_Look], bool]) -> _Look | None:
        """The first look that passes `test`, None after `bound_s`. A pane that is no more raises `TmuxError`."""
        with trio.move_on_after(bound_s):
            while True:
                look = await self._look()
                if look is None:
                    raise TmuxError(f"the pane {self._pane} is gone", may_have_run=True)
                if test(look):
                    return look
                await trio.sleep(POLL_S)
        return None


def _words(look: _Look) -> collections.Counter[str]:
    """The lines with words on them, without prompts, bullets and indentation: a line that only moved is not new."""
    bare = (re.sub(r"^\W+", "", line) for line in look.screen.lines)
    return collections.Counter(line for line in bare if line)


def _trouble(look: _Look | None) -> str:
    if look is None:
        return "the pane vanished"
    if look.screen.facts.dead or look.at_shell_prompt:
        return "the program ended"
    return "the pane went into copy mode" if look.screen.facts.in_mode else "a dialog opened"


def _nothing(why: str) -> Delivery:
    return Delivery(DeliveryOutcome.NOTHING_WRITTEN, why)


def _unconfirmed(why: str) -> Delivery:
    return Delivery(DeliveryOutcome.UNCONFIRMED, why)
