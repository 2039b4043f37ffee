"""Every way in which a pane can be other than it was thought: the right outcome, and nothing else touched, each time.

Rules for every case, whatever its outcome:

1. At most one paste went in, and it was whole: what is unconfirmed is not sent again.
2. A draft is what it was before; so are the person's own paste buffers. The tmux server lives.
3. A dialog is not answered.

`make panes` plays twenty rounds of each; by default it is one.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Awaitable, Callable

import msgspec
import pytest
import trio

from fleettrio.local.echoes import Echoes
from fleettrio.local.harness import load_harness
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text
from fleettrio.local.tmux import TmuxTransport
from fleettrio.panes.foreground import MOST_OF_A_LINE
from fleettrio.testing.agents.composer import NAMED_ENTER, PASTE_BEGIN
from fleettrio.testing.agents.room import StandIn, TmuxRoom, until
from fleettrio.testing.transport_case import framed as brief

ROUNDS = int(os.environ.get("FLEETTRIO_PANE_ROUNDS", "1"))
OWN_BUFFER = "what the person copied; $(not ours)"
DRAFT = "half a thought"
SUBMITTED, UNCONFIRMED, NOTHING = (
    DeliveryOutcome.SUBMITTED,
    DeliveryOutcome.UNCONFIRMED,
    DeliveryOutcome.NOTHING_WRITTEN,
)

Do = Callable[[TmuxRoom, StandIn], Awaitable[None]]


async def nothing(room: TmuxRoom, agent: StandIn) -> None:
    pass


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    outcome: DeliveryOutcome | AgentState
    """A state: it is not taken by `reserve`, which says so."""
    gets: str = ""
    """What its one turn is: `framed`, `notice`, or empty for no turn."""
    why: str = ""
    """A word of the reason."""
    options: tuple[str, ...] = ()
    program: str = "composer"
    harness: str = "script"
    before: Do = nothing
    """Before the first look."""
    between: Do = nothing
    """Between the reservation and the delivery."""
    settings: tuple[tuple[str, object], ...] = ()
    """Of the harness, where a bound runs out."""
    keys: tuple[tuple[str, str], ...] = ()
    """What a newer tmux sends for a form of Enter, as hexadecimal bytes."""
    ignored: int = 0
    """How often Enter did nothing."""
    notice: str = ""


async def open_dialog(room: TmuxRoom, agent: StandIn) -> None:
    agent.open_dialog()
    await until("the dialog shows", lambda: "1. Yes" in room.screen(agent.pane))


async def type_a_draft(room: TmuxRoom, agent: StandIn) -> None:
    room.tmux("send-keys", "-l", "-t", agent.pane, DRAFT)
    await until("the draft shows", lambda: f"❯ {DRAFT}" in room.screen(agent.pane))


async def copy_mode(room: TmuxRoom, agent: StandIn) -> None:
    room.tmux("copy-mode", "-t", agent.pane)


async def die(room: TmuxRoom, agent: StandIn) -> None:
    room.tmux("send-keys", "-t", agent.pane, "C-d")
    await until("the pane is dead", lambda: room.fact(agent.pane, "pane_dead") == "1")


async def another_program(room: TmuxRoom, agent: StandIn) -> None:
    room.tmux("respawn-pane", "-k", "-t", agent.pane, "printf '❯ '; exec cat >/dev/null")
    await until("the other program's prompt", lambda: room.screen(agent.pane) == "❯")


PROMPT = re.compile("^> ?(?P<draft>.*)$", re.MULTILINE)
NAMED = NAMED_ENTER.hex(" ")
SOON, LATER = (("turn_s", 0.4),), (("turn_s", 8.0),)
CASES = {
    "bracketed paste": Case(outcome=SUBMITTED, gets="framed"),
    "no bracketed paste": Case(outcome=SUBMITTED, gets="notice", options=("--no-paste",), harness="line"),
    "canonical mode": Case(outcome=SUBMITTED, gets="notice", program="lines", harness="line"),
    "canonical mode, thought to take pastes": Case(
        outcome=SUBMITTED, gets="notice", program="lines", settings=(("composer", PROMPT),)
    ),
    "canonical mode, a line over what it keeps": Case(
        outcome=NOTHING,
        why=str(MOST_OF_A_LINE),
        program="lines",
        harness="line",
        notice="read 9c41d2aa " + "x" * MOST_OF_A_LINE,
    ),
    "Enter swallowed under 50 ms": Case(outcome=SUBMITTED, gets="framed", options=("--swallow-under", "50")),
    "named Enter ignored": Case(
        outcome=SUBMITTED, gets="framed", keys=(("Enter", NAMED), ("C-m", "0d")), ignored=1, settings=LATER
    ),
    "control Enter ignored": Case(
        outcome=SUBMITTED,
        gets="framed",
        keys=(("Enter", "0d"), ("C-m", NAMED)),
        ignored=1,
        settings=(*LATER, ("enter", "C-m")),
    ),
    "no Enter submits": Case(
        outcome=UNCONFIRMED, why="neither form", options=("--swallow", "9"), ignored=2, settings=SOON
    ),
    "dialog with a default": Case(outcome=AgentState.BLOCKED, why="dialog", before=open_dialog),
    "dialog that opens after the look": Case(outcome=NOTHING, why="dialog", between=open_dialog),
    "dialog that opens on the paste": Case(outcome=UNCONFIRMED, why="a dialog opened", options=("--dialog-on-paste",)),
    "draft": Case(outcome=AgentState.IDLE, why="draft", options=("--draft", DRAFT)),
    "draft begun after the look": Case(outcome=NOTHING, why="draft", between=type_a_draft),
    "at work": Case(outcome=AgentState.WORKING, why="working", options=("--mode", "working")),
    "copy mode": Case(outcome=AgentState.IDLE, why="copy mode", before=copy_mode),
    "copy mode after the look": Case(outcome=NOTHING, why="copy mode", between=copy_mode),
    "dead pane": Case(outcome=AgentState.GONE, why="ended", before=die),
    "dead after the look": Case(outcome=NOTHING, why="ended", between=die),
    "another program in the pane": Case(outcome=NOTHING, why="another program", between=another_program),
}


def framed(notice: str) -> Text:
    text = brief("直して: core/inbox.py; $(touch x)\n  второй ряд\twith a tab\nSELECT 1;")
    return msgspec.structs.replace(text, notice=notice) if notice else text


def transport(room: TmuxRoom, agent: StandIn, case: Case) -> TmuxTransport:
    known = load_harness(case.harness)
    changed = msgspec.structs.replace(
        known, **{"settle_s": 0.07, "echo_s": 60.0, "turn_s": 60.0, **dict(case.settings)}
    )
    return TmuxTransport(agent.target, changed, env=environment(room, case.keys))


def environment(room: TmuxRoom, keys: tuple[tuple[str, str], ...], first: str = "") -> dict[str, str]:
    """A tmux in front of the real one that sends other bytes for a form of Enter, and runs `first` before any Enter."""
    if not keys:
        return room.env
    real = shutil.which("tmux")
    assert real is not None
    folder = room.folder / "bin"
    folder.mkdir(exist_ok=True)
    swaps = "\n".join(f'a=("${{a[@]/ {form} ;/ -H {code} ;}}")' for form, code in keys)
    begin = f'a=("$@")\ncase "$*" in *"send-keys -t"*) {first or ":"} ;; esac'
    script = f'#!/bin/bash\n{begin}\n{swaps}\nexec {real} "${{a[@]}}"\n'
    (folder / "tmux").write_text(script)
    (folder / "tmux").chmod(0o700)
    return {**room.env, "PATH": f"{folder}:{os.environ['PATH']}"}


async def give(via: TmuxTransport, text: Text, between: Callable[[], Awaitable[None]]) -> Delivery | NotReady:
    reserved = await via.reserve("idle")
    if isinstance(reserved, NotReady):
        return reserved
    assert isinstance(reserved, Reserved)
    await between()
    return await via.deliver(reserved, text)


async def check_untouched(room: TmuxRoom, agent: StandIn, case: Case) -> None:
    """Rules 1 to 3."""
    assert room.tmux("show-buffer") == OWN_BUFFER
    assert room.tmux("list-buffers", "-F", "#{buffer_size}") == str(len(OWN_BUFFER))
    assert agent.raw().count(PASTE_BEGIN) <= 1
    assert agent.events("allowed") == []
    if case.outcome not in (SUBMITTED, UNCONFIRMED):
        drafts = [event["text"] for event in agent.events("draft")]
        assert drafts[-1:] in ([], [DRAFT]), "only the person's own"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_outcome_is_right_and_nothing_else_is_touched(room: TmuxRoom, case: Case) -> None:
    room.tmux("set-buffer", OWN_BUFFER)
    for _ in range(ROUNDS):
        await play(room, case)


async def play(room: TmuxRoom, case: Case) -> None:
    agent = await room.start(*case.options, program=case.program)
    await case.before(room, agent)
    text = framed(case.notice)
    done = await give(transport(room, agent, case), text, lambda: case.between(room, agent))
    assert (done.state if isinstance(done, NotReady) else done.outcome) is case.outcome, done
    assert case.why in (done.why if isinstance(done, NotReady) else done.detail)
    if case.gets:
        await until("its turn", agent.turns)
    wanted = {"framed": [text.framed], "notice": [text.notice], "": []}[case.gets]
    assert [turn.rstrip("\n") for turn in agent.turns()] == wanted
    await until("each Enter was read", lambda: len(agent.events("ignored")) >= case.ignored)
    assert len(agent.events("ignored")) == case.ignored
    await check_untouched(room, agent, case)
    room.tmux("kill-pane", "-t", agent.pane)


async def test_a_dialog_that_opens_between_the_last_look_and_enter_is_not_answered(room: TmuxRoom) -> None:
    """The look said that the text stands there. tmux sees the dialog in the step in which it would press Enter."""
    room.tmux("set-buffer", OWN_BUFFER)
    for _ in range(ROUNDS):
        await open_one_before_enter(room)


async def open_one_before_enter(room: TmuxRoom) -> None:
    agent = await room.start()
    shown = f"{shutil.which('tmux')} -L {room.socket} capture-pane -p -t {agent.pane} | grep -q 'Allow it to go on'"
    dialog = f"kill -USR1 {agent.pid}; until {shown}; do sleep 0.01; done"
    via = TmuxTransport(agent.target, load_harness("script"), env=environment(room, (("Enter", "0d"),), first=dialog))
    done = await give(via, framed(""), lambda: nothing(room, agent))
    assert isinstance(done, Delivery)
    assert (done.outcome, done.detail) == (UNCONFIRMED, "a dialog opened; Enter was not pressed")
    assert not agent.turns()
    assert not agent.events("ignored")
    await check_untouched(room, agent, Case(outcome=UNCONFIRMED))
    room.tmux("kill-pane", "-t", agent.pane)


@pytest.mark.parametrize(("options", "when"), [(("--mode", "working"), "now"), (("--swallow", "9"), "idle")])
async def test_the_word_of_the_prompt_hook_is_evidence_beside_the_screen(
    room: TmuxRoom, options: tuple[str, ...], when: str
) -> None:
    """Into an agent that works, and into one whose screen shows nothing new."""
    agent, echoes, text = await room.start(*options), Echoes(), framed("")
    known = msgspec.structs.replace(load_harness("script"), turn_s=60.0)
    via = TmuxTransport(agent.target, known, env=room.env, echoes=echoes)
    reserved = await via.reserve(when)
    assert isinstance(reserved, Reserved)
    done: list[Delivery] = []

    async def give_it() -> None:
        done.append(await via.deliver(reserved, text))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_it)
        await until("Enter", lambda: agent.events("queued") or agent.events("ignored"))
        echoes.heard(text.framed)
    assert done == [Delivery(SUBMITTED)]
    assert agent.raw().count(b"\r") == 1
