"""A stand-in for Claude Code or Codex: `python -m fleettrio.testing.agents.harness claude --log FILE [options]`.

A composer with turns, hooks, a session file and a transcript. It takes the options of the real program that matter
(`--settings`, `--session-id`, `-c`) and passes over others. A turn lasts `--work` seconds, with `--hold` until SIGUSR2.
From outside: SIGUSR1 asks for permission, SIGUSR2 ends the turn (or the dialog, which it allows), SIGRTMIN uses a tool.
`/clear` and `/quit` are commands, Escape interrupts, the up key takes back what is queued.

The log has, beside the composer's events: `hook` (what each hook printed), `dropped` (an output that the harness would
not take), `context` (what the model saw: the event's name, text, turn), `goes-on` (a stop that was none), `said`,
`stopped`, `interrupted`, `refused` (a prompt that a hook stopped), `taken-back`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import shlex
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable
from typing import Any

from fleettrio.testing.agents.agent import Agent
from fleettrio.testing.agents.screens import paint, screen

__all__ = ("main",)

ESCAPE_S = 0.05
"""A lone escape byte is the key when nothing follows for so long."""
USE_TOOL = signal.SIGRTMIN


def run(agent: Agent, wake: int) -> None:
    """Until the end of input, `/quit`, or control-D."""
    agent.begin()
    while True:
        paint(*screen(agent))
        until = [at - time.monotonic() for at in (agent.ends_at,) if at is not None and agent.mode == "working"]
        until += [ESCAPE_S] if agent.may_be_escape else []
        ready, _, _ = select.select([0, wake], [], [], max(0.0, min(until)) if until else None)
        if wake in ready:
            for number in os.read(wake, 64):
                if action := _ACTIONS.get(number):
                    action(agent)
        if 0 in ready:
            data = os.read(0, 65_536)
            if not data or data == b"\x04":
                return
            agent.feed(data)
        elif agent.may_be_escape:
            agent.lone_escape()
        agent.tick()
        agent.wake()


_ACTIONS: dict[int, Callable[[Agent], None]] = {
    signal.SIGUSR1: Agent.ask,
    signal.SIGUSR2: Agent.finish,
    USE_TOOL: Agent.use_tool,
}


def _options() -> argparse.Namespace:
    # Options of ours may also come from the environment: the real ones are written by whoever starts us.
    parser = argparse.ArgumentParser(description="a stand-in for a harness with hooks", allow_abbrev=False)
    parser.add_argument("harness", choices=("claude", "codex"))
    parser.add_argument("--log", default=os.environ.get("STANDIN_LOG", os.devnull), help="file for the events")
    parser.add_argument("--work", type=float, default=0.1, help="seconds that a turn lasts")
    parser.add_argument("--hold", action="store_true", help="a turn lasts until SIGUSR2")
    parser.add_argument("--say", default="", help="its last words in every turn")
    parser.add_argument("--on-turn", default="", help="command that each turn runs, with its text on stdin")
    parser.add_argument("--draft", default="", help="text that is half typed at the start")
    parser.add_argument("--swallow", type=int, default=0, help="so many times Enter does not submit")
    parser.add_argument("--hook-times", type=int, default=1, help="each hook runs so many times")
    parser.add_argument("--lose", default="", metavar="EVENT", help="what its hooks print is lost")
    parser.add_argument("--more", type=_json, default={}, help="fields of a newer version, into every hook's input")
    parser.add_argument("--settings", action="append", default=[])
    parser.add_argument("--session-id", default="")
    parser.add_argument("-c", "--config", action="append", default=[])
    given = [*sys.argv[1:2], *shlex.split(os.environ.get("STANDIN_OPTIONS", "")), *sys.argv[2:]]
    options, _ = parser.parse_known_args(given)
    options.prompt = []
    options.paste, options.mode, options.swallow_as = True, "idle", "nothing"
    options.dialog_on_paste = False
    return options


def _json(text: str) -> Any:
    import json  # only where it is asked for

    return json.loads(text)


def main() -> None:
    options = _options()
    wake, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    signal.set_wakeup_fd(wake_in)
    for number in _ACTIONS:
        signal.signal(number, lambda *_: None)
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSANOW)
    try:
        sys.stdout.write("\x1b[?2004h")
        with open(options.log, "ab") as log:
            agent = Agent(options, log, wake_in)
            agent.note("begun", pid=os.getpid(), session=agent.session)
            with contextlib.suppress(EOFError):
                run(agent, wake)
            agent.end()
            agent.note("ended", turns=agent.turns)
    finally:
        sys.stdout.write("\x1b[?2004l\x1b]2;\x07\r\n")
        sys.stdout.flush()
        termios.tcsetattr(0, termios.TCSANOW, before)


if __name__ == "__main__":
    main()
