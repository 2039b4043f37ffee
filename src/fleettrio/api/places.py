"""Where an agent that already runs lives: a pane of tmux, or a terminal in herdr; what runs there, and what it does.

Rules:
1. A pane that is dead, or is none, is told; so is one in which another program runs than was said. Nothing is guessed:
   a program that nobody described is one that gets single lines.
2. What is started in the pane afterwards speaks for the agent: its terminal is the agent's, and its program, where that
   is not the pane's first process.
3. It is looked at, and nothing is typed.
4. Two agents do not live in one place, or each would get what is for the other; but one of two programs of a shell may
   be suspended.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
import trio

from fleettrio.api import rights, schema
from fleettrio.api.callers import Caller, is_terminal
from fleettrio.api.names import Place
from fleettrio.api.rpc import CallError, Connection
from fleettrio.core.entity import Entity
from fleettrio.errors import FAILED, USAGE, ConfigError
from fleettrio.local.harness import harness_names, harness_of, load_harness
from fleettrio.local.herdr import HerdrTransport
from fleettrio.local.port import NotReady, Transport
from fleettrio.local.sanitise import one_line
from fleettrio.local.tmux import TmuxTransport
from fleettrio.panes.foreground import Foreground, foreground
from fleettrio.panes.herdr import Herdr, target_of
from fleettrio.panes.herdrsocket import HerdrError
from fleettrio.panes.scope import Process, process_of
from fleettrio.panes.terminal import PaneFacts
from fleettrio.panes.tmux import Tmux, TmuxError, parse_target

__all__ = ("Found", "check_free", "in_herdr", "in_pane")

_MOST_FILE = 65_536
_SESSION = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class Found(msgspec.Struct, frozen=True):
    """What an attach found. Its processes are known by `tty` and `pid`; `program`: the harness in front of a shell."""

    transport: str
    target: str
    harness: str
    tty: str = ""
    pid: int = 0
    program: Process | None = None
    session: str = ""
    words: str = ""
    """For the person: what is there, and whether it would take a message now."""


async def in_pane(params: schema.Attach, caller: Caller, connection: Connection) -> Found:
    """The agent in the tmux pane `params.pane`. Raises `CallError`."""
    try:
        socket, pane = parse_target(params.pane)
        facts = await Tmux(socket).facts(pane)
    except ConfigError as error:
        raise CallError(USAGE, "no-pane", str(error), error.hint) from error
    except TmuxError as error:
        raise CallError(FAILED, "no-pane", str(error), error.hint) from error
    if facts is None or facts.dead:
        what = "is dead" if facts else "does not exist"
        hint = "tmux list-panes -a shows what is there"
        raise CallError(FAILED, "no-pane", f"the pane {params.pane} {what}", hint)
    rights.check_pane(params.pane, facts.tty, facts.pid, caller, connection)
    front = await trio.to_thread.run_sync(foreground, facts)
    there = harness_of(front.words)
    # A command in the pane itself attaches it before the agent is started there.
    is_own = not there and any(is_terminal(facts.tty, facts.pid, process) for process in connection.ancestors)
    if not is_own:
        _check_harness(params, there, front)
    harness = params.harness or there
    program = process_of(front.group) if there and front.group not in (0, facts.pid) else None
    session = await trio.to_thread.run_sync(_session_of, there, front.group)
    where = f"pane {params.pane}"
    if is_own:
        words = f"{where}; start {harness or 'the agent'} there next"
    else:
        via = TmuxTransport(params.pane, load_harness(harness), born=facts.pid)
        words = await _words(via, harness, _program_of(front, facts), where, session)
    return Found("tmux", params.pane, harness, facts.tty, facts.pid, program, session, words)


async def in_herdr(params: schema.Attach, caller: Caller, connection: Connection) -> Found:
    """The agent in herdr that `params.target` names (`SOCKET#` and terminal, pane or name). Raises `CallError`."""
    try:
        socket, name = target_of(params.target)
        herdr = Herdr(socket)
        version = one_line(await herdr.ping(), 20)
        agent = await herdr.agent(name)
        process = await herdr.process(agent.pane_id)
    except ConfigError as error:
        raise CallError(USAGE, "no-agent", str(error), error.hint) from error
    except HerdrError as error:
        hint = error.hint or "herdr agent list shows who is there"
        raise CallError(FAILED, "no-agent", str(error), hint) from error
    tty, pid = process.tty or "", process.shell_pid or 0
    rights.check_pane(f"{agent.pane_id} of herdr", tty, pid, caller, connection)
    kind = one_line(agent.agent or "", 40)
    if params.harness and kind in harness_names() and kind != params.harness:
        raise _wrong(params.harness, f"herdr's {agent.pane_id}", kind)
    harness = params.harness or (kind if kind in harness_names() else "")
    session = agent.session if _SESSION.fullmatch(agent.session) else ""
    target = f"{socket}#{agent.terminal_id}"
    via = HerdrTransport(target, load_harness(harness), session=session)
    words = await _words(via, harness, kind, f"pane {agent.pane_id} of herdr {version}", session)
    return Found("herdr", target, harness, tty, pid, None, session, words)


def check_free(place: Place, name: str, entities: Iterable[Entity]) -> None:
    """Raises `CallError` when another agent than `name` lives in that pane or terminal of herdr."""
    for entity in entities:
        if entity.transport not in ("tmux", "herdr") or entity.name == name or entity.status in ("away", "gone"):
            continue
        program = Process(entity.program, entity.started)
        is_another = entity.program > 0 and (place.program not in (None, program) or not program.is_alive)
        # A pane of tmux has several names (`%3`, `socket:%3`); a terminal of herdr has one.
        is_pane = entity.transport == "tmux" and bool(place.tty) and (entity.tty, entity.pid) == (place.tty, place.pid)
        is_there = is_pane or (bool(place.target) and entity.target == place.target)
        if is_there and not is_another:
            text = f"{entity.name} lives there already ({entity.target})"
            hint = f"fleettrio detach {entity.name}, or attach it again by its own name"
            raise CallError(FAILED, "place-held", text, hint)


def _check_harness(params: schema.Attach, there: str, front: Foreground) -> None:
    """Raises `CallError` when something else runs there than the person thinks, or nothing yet."""
    wanted = load_harness(params.harness).programs if params.harness else frozenset()
    if not wanted:
        return
    if there and there != params.harness:
        raise _wrong(params.harness, f"pane {params.pane}", there)
    if front.at_shell_prompt:
        text = f"a shell is at the prompt of pane {params.pane}, and no {params.harness}"
        raise CallError(FAILED, "wrong-harness", text, f"start it there: fleettrio {params.harness}")


def _wrong(wanted: str, where: str, there: str) -> CallError:
    text = f"{there} runs in {where}, not {wanted}"
    return CallError(FAILED, "wrong-harness", text, f"give --harness {there}, or none: it is seen which one it is")


def _program_of(front: Foreground, facts: PaneFacts) -> str:
    return one_line(front.words[-1] if front.words else facts.command, 40)


async def _words(via: Transport, harness: str, program: str, where: str, session: str) -> str:
    found = await via.reserve("idle")
    await via.close()
    what = harness or f"{program or 'a program'} (nobody described it: it gets one line for each message)"
    state = f"{found.state}: {found.why}" if isinstance(found, NotReady) else f"{found.state}, ready for a message"
    return f"{what} in {where}, {state}" + (f"; session {session}" if session else "")


def _session_of(harness: str, pid: int) -> str:
    """What Claude Code calls its session, by the file that it keeps for its process. Blocks; empty when unknown."""
    if harness != "claude" or pid <= 0:
        return ""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        named = [os.fsdecode(one.partition(b"=")[2]) for one in environment if one.startswith(b"CLAUDE_CONFIG_DIR=")]
        folder = Path(named[0]) if named and named[0] else Path.home() / ".claude"
        with open(folder / "sessions" / f"{pid}.json", "rb") as file:
            said = msgspec.json.decode(file.read(_MOST_FILE), type=_SessionFile)
    except (OSError, msgspec.MsgspecError):
        return ""
    is_its_own = said.pid in (0, pid) and _SESSION.fullmatch(said.session) is not None
    return said.session if is_its_own else ""


class _SessionFile(msgspec.Struct):
    session: str = msgspec.field(name="sessionId", default="")
    pid: int = 0
