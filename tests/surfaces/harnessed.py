"""A stand-in for Claude Code or Codex in a pane of a host, with our hooks as `fleettrio claude` passes them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from fleettrio.clients.harnesses import claude, codex
from fleettrio.testing.agents.room import StandIn, TmuxRoom, harness
from fleettrio.testing.hosts import HOOK_PATIENCE, Host
from fleettrio.testing.waiting import wait_until

__all__ = ("AFTER_INJECTED", "Harnessed", "final", "send", "state")

AFTER_INJECTED = ("answered", "ended")
"""What may already be said of a message when somebody looks whether it was put in."""


def send(host: Host, to: str, text: str, *options: str, token: str | None = None) -> str:
    short: str = host.ok("send", to, text, *options, "--json", token=token).json()["messages"][0]["short"]
    return short


def state(host: Host, short: str) -> str:
    found: str = host.ok("show", short, "--json").json()["messages"][0]["state"]
    return found


def final(host: Host, short: str, *states: str) -> None:
    """Wait for one of these states; what was answered, or whose turn is over, was put in before."""
    wanted = {*states, *(AFTER_INJECTED if "injected" in states else ())}
    wait_until(f"{short} is {' or '.join(states)}", lambda: state(host, short) in wanted)


class Harnessed(StandIn):
    """Attached under `name`. `home` is its own; `events` are read from its log."""

    __slots__ = ("home", "host", "name", "room")

    room: TmuxRoom
    host: Host
    name: str
    home: Path

    @classmethod
    def start(
        cls,
        room: TmuxRoom,
        host: Host,
        name: str,
        *options: str,
        kind: str = "claude",
        waits: bool = True,
        attached: bool = True,
        reply: str = "auto",
    ) -> Harnessed:
        """`waits` False: without the hooks that stay behind to wake it."""
        home = room.folder / f"{host.name}-{name}"
        home.mkdir()
        log = home / "log.jsonl"
        own = {"HOME": str(home), **{key: host.env[key] for key in ("FLEETTRIO_HOME", "PYTHONPATH", HOOK_PATIENCE)}}
        argv = harness(kind, log, *_told(kind, waits=waits), *options)
        pane = room.run(["env", *(f"{key}={value}" for key, value in own.items()), *argv], cwd=home)
        agent = cls(pane, f"{room.socket}:{pane}", log)
        object.__setattr__(agent, "room", room)
        object.__setattr__(agent, "host", host)
        object.__setattr__(agent, "name", name)
        object.__setattr__(agent, "home", home)
        wait_until(f"{name} is on the screen", lambda: "stand-in agent" in room.screen(pane))
        if attached:
            host.ok("attach", "--name", name, "--pane", agent.target, "--harness", kind, "--reply", reply)
        return agent

    def type(self, text: str) -> None:
        self.room.tmux("send-keys", "-t", self.pane, "-l", text)
        self.room.tmux("send-keys", "-t", self.pane, "Enter")

    def draft(self, text: str) -> None:
        """Half typed, and left so."""
        self.room.tmux("send-keys", "-t", self.pane, "-l", text)
        self.shows(text)

    def key(self, name: str) -> None:
        self.room.tmux("send-keys", "-t", self.pane, name)

    def saw(self, text: str) -> list[dict[str, Any]]:
        """Contexts and turns in which the model saw `text`."""
        shown = [*self.events("context"), *self.events("turn")]
        return [event for event in shown if text in event["text"]]

    def shows(self, text: str) -> None:
        """Wait until that is on its screen, which is painted anew at each step."""
        wait_until(f"{text!r} is on the screen of {self.name}", lambda: text in self.room.screen(self.pane))

    def wait_contexts(self, event: str) -> list[dict[str, Any]]:
        """What its model was shown at that event, once there is something."""

        def shown() -> list[dict[str, Any]]:
            return [one for one in self.events("context") if one["name"] == event]

        return wait_until(f"{self.name} sees something at {event}", shown)

    def wait_saw(self, text: str) -> list[dict[str, Any]]:
        """As `saw`, once it saw it."""
        return wait_until(f"{self.name} saw {text!r}", lambda: self.saw(text))

    def wait_turns(self, count: int) -> None:
        wait_until(f"{self.name} took {count} turns", lambda: len(self.turns()) >= count)

    def hooks(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events("hook") if event["name"] == name]

    def status(self) -> str:
        found = self.host.agent(f"{self.name}@{self.host.name}")
        return found.status if found else ""

    def wait_status(self, status: str) -> None:
        wait_until(f"{self.name} is {status}", lambda: self.status() == status)

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _told(kind: str, *, waits: bool) -> list[str]:
    if kind == "codex":
        return [word for override in codex.overrides() for word in ("-c", override)]
    settings = claude.settings()
    if not waits:
        for groups in settings["hooks"].values():
            for group in groups:
                group["hooks"] = [one for one in group["hooks"] if not one.get("asyncRewake")]
    return ["--settings", json.dumps(settings)]
