"""A harness's hook called: what happened goes to the core, what may land is handed out. Rules:

1. Which agent it is for is decided by the caller rules (`api.sessions`). For a session that nobody attached nothing
   happens and nothing is said.
2. Nothing that a hook is given makes it fail: what cannot be read is logged, counted and answered with nothing.
3. Told twice, it happened once, and is answered once.
4. A prompt takes whatever waits; a turn's end and the middle of a turn only what may land there; a session's start
   takes nothing, it may be a phantom. A prompt that is only queued takes nothing: the person may take it back.
5. A turn goes on for us at most `GOES_ON` times, for new messages only.
6. Evidence of what was handed out is what can only come after it: its nonce in a prompt, the next hook of that turn.
   What goes with a prompt may be lost with it, so that is looked up in the transcript, where there is one (`evidence`).
7. No text of ours names a command line or a token: the harness shows both to the model where it can.
"""

from __future__ import annotations

import trio

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.digests import Digests
from fleettrio.api.handing import Handed
from fleettrio.api.hooks.claude import Claude
from fleettrio.api.hooks.codex import Codex
from fleettrio.api.hooks.evidence import Evidence
from fleettrio.api.hooks.live import Live, Lives, session_file
from fleettrio.api.hooks.once import Once
from fleettrio.api.hooks.opencode import OpenCode
from fleettrio.api.hooks.told import Dialect, Told, Unreadable, What
from fleettrio.api.rpc import Connection, Handler
from fleettrio.api.sessions import Sessions
from fleettrio.core.entity import Entity
from fleettrio.core.events import AgentSeen
from fleettrio.core.handouts import REWAKE
from fleettrio.core.harness import PromptTyped
from fleettrio.core.inbox import ALL_WHENS
from fleettrio.errors import FleetTrioError
from fleettrio.ids import Gid, WallMs
from fleettrio.local.echoes import carries_frame
from fleettrio.local.nonces import nonces_in
from fleettrio.local.port import AgentState
from fleettrio.observe import COUNTERS, get_logger
from fleettrio.perform import Performer

__all__ = ("DIALECTS", "ROOM", "Hooks")

ROOM = 9_000
"""Characters of context. From 10 000 on Claude Code shows the beginning only, and Codex cuts the middle out."""
MOST = 20
GOES_ON = 4
WRITTEN_S = 1.5

DIALECTS: dict[str, Dialect] = {"claude": Claude(), "codex": Codex(), "opencode": OpenCode()}

_WHENS = {
    What.PROMPT: ALL_WHENS,
    What.AT_WORK: frozenset({"now"}),
    What.TURN_OVER: frozenset({"turn", "now"}),
}
_STATES = {
    What.SESSION_BEGAN: AgentState.IDLE,
    What.PROMPT: AgentState.WORKING,
    What.AT_WORK: AgentState.WORKING,
    What.ASKS: AgentState.BLOCKED,
    What.AT_REST: AgentState.IDLE,
    What.TURN_OVER: AgentState.IDLE,
    What.INTERRUPTED: AgentState.IDLE,
    What.FAILED: AgentState.IDLE,
    What.SESSION_OVER: AgentState.GONE,
}
_NOTHING = schema.HookAnswer()
_NOTICE = "<task-notification>"
"""How a turn begins that a waiting hook woke: no person typed that."""

log = get_logger("hooks")


class Hooks:
    def __init__(self, performer: Performer, sessions: Sessions, evidence: Evidence, digests: Digests) -> None:
        self._performer = performer
        self._sessions = sessions
        self._handing = evidence.handing
        self._evidence = evidence
        self._digests = digests
        self._lives = Lives()
        self._once = Once()
        self._waiting: dict[Gid, trio.CancelScope] = {}
        self.last_seen: dict[str, WallMs] = {}
        """Harness → when one of its hooks last called for an agent."""

    def methods(self) -> dict[str, Handler]:
        return {"hook": self.hook, "hook.wait": self.wait}

    async def hook(self, params: schema.Hook, caller: Caller, connection: Connection) -> schema.HookAnswer:
        found = self._whose(params, caller, connection)
        if found is None:
            return _NOTHING
        entity, told, dialect = found
        if self._once.is_repeat(entity.gid, params.input, trio.current_time()):
            COUNTERS.count("hook-repeated", dialect.name)
            return _NOTHING
        self.last_seen[dialect.name] = self._performer.clock.now().wall
        if told.is_within and told.what is not What.ASKS:  # its prompts stand in front of the whole agent
            return _NOTHING
        try:
            text = await self._happened(entity, told, dialect, params, connection)
        except FleetTrioError as problem:  # whoever waits for this hook is a person at a prompt
            log.error("hook", agent=entity.name, hook_event=told.event, reason=str(problem))
            COUNTERS.count("hook-failed", dialect.name)
            return _NOTHING
        return schema.HookAnswer(dialect.context(told, text)) if text else _NOTHING

    async def wait(self, params: schema.Hook, caller: Caller, connection: Connection) -> schema.HookAnswer:
        """Wait until something wakes the agent. The newest call of an agent waits; an older one ends with what it has
        by then, mostly nothing."""
        found = self._whose(params, caller, connection)
        if found is None or found[1].is_within:
            return _NOTHING
        gid, session = found[0].gid, found[1].session
        self._performer.sightings.called(gid)
        if before := self._waiting.get(gid):
            before.cancel()
        handed, patience = list[Handed](), trio.CancelScope()
        try:
            while not handed and not patience.cancel_called:
                self._waiting[gid] = patience = trio.CancelScope()
                handed = await self._take(gid, ALL_WHENS, ROOM, REWAKE, connection, patience)
                self._lives.of(gid, session).put_in.update(one.nonce for one in handed)
        finally:
            if self._waiting.get(gid) is patience:
                del self._waiting[gid]
        text = _joined(handed)
        return schema.HookAnswer(stderr=text.encode(), code=2) if text else _NOTHING

    def _whose(
        self, params: schema.Hook, caller: Caller, connection: Connection
    ) -> tuple[Entity, Told, Dialect] | None:
        dialect = DIALECTS.get(params.harness)
        if dialect is None:
            log.warning("hook of an unknown harness", harness=params.harness[:40])
            COUNTERS.count("hook-unreadable", "harness")
            return None
        try:
            told = dialect.read(params.input)
        except Unreadable as problem:
            log.warning("hook cannot be read", harness=dialect.name, reason=str(problem)[:200])
            COUNTERS.count("hook-unreadable", dialect.name)
            return None
        entity = self._sessions.entity_of(
            caller, connection, harness=dialect.name, session=told.session, program=_pid(params.env)
        )
        COUNTERS.count("hook" if entity else "hook-dormant", dialect.name)
        return (entity, told, dialect) if entity else None

    # --- what happened

    async def _happened(
        self, entity: Entity, told: Told, dialect: Dialect, params: schema.Hook, connection: Connection
    ) -> str:
        """Tell the core; what the agent is to read now, empty for nothing."""
        gid, live = entity.gid, self._lives.of(entity.gid, told.session)
        if (told.session and told.session != entity.session) or (told.api and told.api != entity.api):
            await self._sessions.note(gid, session=told.session, api=told.api)
        if told.transcript != live.transcript:
            live.transcript = told.transcript
            pids = (_pid(params.env), entity.process)
            file = await trio.to_thread.run_sync(session_file, told.transcript, pids, connection.ancestors)
            live.has_transcript = file is not None
            self._performer.sightings.follow(gid, told.session, file)
        await self._note_evidence(gid, live, told)
        match told.what:
            case What.SESSION_BEGAN:
                if dialect.begins_idle:
                    await self._is(gid, told.what)
                return await self._digests.digest_of(gid) if dialect.takes_context(told) else ""
            case What.PROMPT:
                return await self._prompt(entity, live, told, dialect, connection)
            case What.AT_WORK:
                await self._is(gid, told.what)
                return await self._context(entity, live, told, dialect, connection)
            case What.TURN_OVER:
                return await self._turn_over(entity, live, told, dialect, connection)
            case What.INTERRUPTED | What.FAILED:
                live.in_turn = False
                await self._handing.turn_ended(gid, None, "interrupt" if told.what is What.INTERRUPTED else "error")
                await self._is(gid, told.what)
            case What.SESSION_OVER if not told.is_clear:
                live.in_turn = False
                await self._is(gid, told.what)
            case What.ASKS:
                await self._is(gid, told.what)
            case What.AT_REST:
                live.in_turn = False
                await self._is(gid, told.what)
        return ""

    async def _note_evidence(self, gid: Gid, live: Live, told: Told) -> None:
        """A prompt shows what stands in it; a later hook of the same turn, what the one before it put in."""
        nonces = set(nonces_in(told.prompt))
        self._performer.echoes.heard(told.prompt)
        is_later = told.what in (What.AT_WORK, What.TURN_OVER, What.ASKS) and told.turn in ("", live.turn)
        if is_later or (told.what is What.PROMPT and _is_notice(told.prompt)):
            nonces |= live.put_in
        if is_later or told.what is What.PROMPT:
            live.put_in = set()
        await self._handing.seen(gid, nonces=nonces)

    async def _prompt(self, entity: Entity, live: Live, told: Told, dialect: Dialect, connection: Connection) -> str:
        is_at_work = live.in_turn if live.in_turn is not None else entity.status == "working"
        if self._performer.sightings.of_harness(entity.gid) is AgentState.IDLE:
            is_at_work = False  # an interrupt ran no hook
        is_queued = dialect.queues and is_at_work and told.turn in ("", live.turn or told.turn)
        is_typed = not carries_frame(told.prompt) and not _is_notice(told.prompt)
        if is_queued:
            live.typed_next = live.typed_next or is_typed
            return ""
        live.turn, live.in_turn, live.went_on = told.turn, True, 0
        if is_typed:
            await self._performer.handle(PromptTyped(entity.gid))
        await self._is(entity.gid, told.what)
        return await self._context(entity, live, told, dialect, connection)

    async def _turn_over(self, entity: Entity, live: Live, told: Told, dialect: Dialect, connection: Connection) -> str:
        """The turn's words first; then what is handed out begins what is another turn to us."""
        gid, may_go_on = entity.gid, live.went_on < GOES_ON and dialect.takes_context(told)
        await self._written(gid)
        text = await self._handing.nag(gid) if may_go_on else ""
        if not text:
            await self._handing.turn_ended(gid, told.words.encode() if told.words else None, "done")
            if live.typed_next:
                live.typed_next = False
                await self._performer.handle(PromptTyped(gid))
            text = await self._context(entity, live, told, dialect, connection) if may_go_on else ""
        live.in_turn = bool(text)
        live.went_on += live.in_turn
        await self._is(gid, What.AT_WORK if text else told.what)
        return text

    async def _written(self, gid: Gid) -> None:
        """What was typed into a turn belongs to it, also when the turn is over before whoever typed has looked."""
        with trio.move_on_after(WRITTEN_S):
            await self._performer.written(gid)

    async def _context(self, entity: Entity, live: Live, told: Told, dialect: Dialect, connection: Connection) -> str:
        """What waits and may land at this event, framed; it counts as handed out from here on."""
        if not dialect.takes_context(told):
            return ""
        failed = await self._digests.framed_failures(entity.gid) if told.what is What.PROMPT else ""
        failed = failed[: ROOM // 2]
        handed = await self._take(entity.gid, _WHENS[told.what], ROOM - len(failed), "hook", connection)
        nonces = [one.nonce for one in handed]
        if live.has_transcript:
            self._evidence.look_for(entity.gid, live.transcript, nonces)
        if not live.has_transcript or told.what is not What.PROMPT:
            live.put_in.update(nonces)
        return "\n\n".join(filter(None, (failed, _joined(handed))))

    async def _take(
        self,
        gid: Gid,
        whens: frozenset[str],
        room: int,
        via: str,
        connection: Connection,
        patience: trio.CancelScope | None = None,
    ) -> list[Handed]:
        return await self._handing.take(
            gid, whens=whens, room=room, most=MOST, via=via, connection=connection, patience=patience
        )

    async def _is(self, gid: Gid, what: What) -> None:
        """What it does now, for the core and for whoever would type into it."""
        state = _STATES[what]
        self._performer.sightings.told(gid, state, self._performer.clock.now().wall)
        status = "away" if state is AgentState.GONE else str(state)
        await self._performer.handle(AgentSeen(gid, status, looked=True))


def _is_notice(prompt: str) -> bool:
    return prompt.lstrip().startswith(_NOTICE)


def _joined(handed: list[Handed]) -> str:
    return "\n\n".join(one.text.framed for one in handed)


def _pid(env: bytes) -> int:
    """The harness's own process, as it tells its hooks; 0 when it does not."""
    for entry in env.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == b"CLAUDE_PID" and value.isdigit() and len(value) < 10:
            return int(value)
    return 0
