"""Transport into an agent that lives in herdr: its status, its screen, then one prompt that waits for an effect.

Rules:

1. The agent is known by its terminal, or by its harness's session once a restart of herdr gave it another terminal;
   never by its pane, which moves.
2. `idle` and `done` (idle, not looked at yet) take a message. Blocked, working, unknown, and a start that is not over
   do not; older servers would prompt a blocked agent, so this is looked at here, right before the prompt.
3. herdr knows of no drafts: its screen is read as any other pane's, and a draft or a dialog there forbids typing.
4. `submitted` needs an effect: its state changed, or its prompt hook heard the text. A prompt without an effect, an
   agent that was lost meanwhile and every answer that is no proof of the contrary are `unconfirmed`.
5. Into an agent that works (`now`) the text is queued at best: `unconfirmed` (mid-turn), unless its hook heard it.
"""

from __future__ import annotations

import msgspec
import trio

from fleettrio.local.echoes import Echoes
from fleettrio.local.harness import Harness, not_ready, read_screen
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text
from fleettrio.local.sanitise import one_line
from fleettrio.panes.herdr import Herdr, HerdrAgent, target_of
from fleettrio.panes.herdrsocket import HerdrError

__all__ = ("HerdrTransport",)

ECHO_S = 2.0
"""How long the prompt hook's word is waited for when herdr saw no effect."""
_STATES = {
    "idle": AgentState.IDLE,
    "done": AgentState.IDLE,
    "working": AgentState.WORKING,
    "blocked": AgentState.BLOCKED,
}
_ABSENT = ("server_unavailable", "agent_not_found", "agent_not_running")


class _Look(msgspec.Struct, frozen=True):
    agent: HerdrAgent
    state: AgentState
    draft: str | None

    @property
    def generation(self) -> str:
        agent = self.agent
        return "/".join((agent.terminal_id, agent.agent or "", agent.session, agent.agent_instance_id or ""))


class HerdrTransport:
    """Into the agent of `target` (`SOCKET#TERMINAL`), which runs `harness`. Raises `ConfigError` for another target.

    `session`: what the harness calls its session, as last heard; empty when that is not known.
    """

    name = "herdr"
    wakes = True

    def __init__(self, target: str, harness: Harness, *, session: str = "", echoes: Echoes | None = None) -> None:
        socket, self._terminal = target_of(target)
        self._herdr = Herdr(socket)
        self._harness = harness
        self._session = session
        self._echoes = echoes
        self._seen = AgentState.UNKNOWN

    async def state(self) -> AgentState:
        """Look, change nothing. While herdr does not answer the state is what it was last."""
        found = await self._judge("now")
        if found.state is not AgentState.UNKNOWN:
            self._seen = found.state
        return self._seen

    async def reserve(self, when: str) -> Reserved | NotReady:
        """All checks for a delivery with `when`. Writes nothing."""
        return await self._judge(when)

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """Prompt with `text`. Takes at most the harness's turn bound and some seconds."""
        # A reservation of a working agent was one for `now`.
        judged = await self._judge("now" if reserved.state is AgentState.WORKING else "idle")
        if isinstance(judged, NotReady):
            return Delivery.nothing(judged.why)
        if judged.generation != reserved.generation:
            return Delivery.nothing("another agent is there since it was looked at")
        fits = len(text.framed.encode()) <= self._harness.max_bytes and self._herdr.fits(text.framed)
        is_whole = self._harness.bracketed_paste and fits
        heard = self._echoes.expect(text.nonce if is_whole else text.short_id) if self._echoes else trio.Event()
        try:
            after = await self._herdr.prompt(
                judged.generation.partition("/")[0], text.framed if is_whole else text.notice, self._harness.turn_s
            )
        except HerdrError as error:
            if not error.may_have_run:
                return Delivery.nothing(str(error))
            return await self._by_echo(heard, f"{error} ({error.code})")
        if judged.state is AgentState.WORKING:
            return await self._by_echo(heard, "mid-turn: it was given to a working agent")
        if _STATES.get(after.agent_status) is AgentState.BLOCKED:
            return await self._by_echo(heard, "a dialog opened as it was put in")
        saw_work = _STATES.get(after.agent_status) is AgentState.WORKING
        return Delivery(DeliveryOutcome.SUBMITTED, saw_work=saw_work)

    async def close(self) -> None:
        """Nothing is held."""

    async def _by_echo(self, heard: trio.Event, why: str) -> Delivery:
        if self._echoes is not None:
            with trio.move_on_after(ECHO_S):
                await heard.wait()
        if heard.is_set():
            return Delivery(DeliveryOutcome.SUBMITTED)
        return Delivery.unconfirmed(why)

    async def _judge(self, when: str) -> Reserved | NotReady:
        try:
            look = await self._look()
        except HerdrError as error:
            is_gone = error.code in _ABSENT
            return NotReady(AgentState.GONE if is_gone else AgentState.UNKNOWN, str(error), gone=is_gone)
        if look is None:
            return NotReady(AgentState.GONE, "herdr has no such agent any more", gone=True)
        if self._harness.bracketed_paste and look.agent.agent not in (None, self._harness.name):
            why = f"another program has its terminal: {one_line(look.agent.agent or '', 40)}"
            return NotReady(AgentState.GONE, why, gone=True)
        if look.agent.launch_pending:
            return NotReady(AgentState.UNKNOWN, "it is being started")
        if look.state is AgentState.UNKNOWN:
            return NotReady(look.state, "herdr does not know what it is doing")
        return not_ready(look.state, look.draft, when) or Reserved(look.generation, look.state)

    async def _look(self) -> _Look | None:
        agent = self._mine(await self._herdr.agents())
        if agent is None:
            return None
        state = _STATES.get(agent.agent_status, AgentState.UNKNOWN)
        if not self._harness.bracketed_paste:
            # Nobody described its screen; what herdr says of it must do.
            return _Look(agent, state, "")
        reading = read_screen(self._harness, await self._herdr.look(agent))
        if AgentState.BLOCKED in (state, reading.screen, reading.title):
            state = AgentState.BLOCKED
        return _Look(agent, state, reading.draft)

    def _mine(self, agents: list[HerdrAgent]) -> HerdrAgent | None:
        found = [agent for agent in agents if agent.terminal_id == self._terminal]
        if not found and self._session:
            found = [agent for agent in agents if agent.session == self._session]
        if len(found) != 1:
            return None
        self._session = found[0].session or self._session
        return found[0]
