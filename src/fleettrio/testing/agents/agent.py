"""The stand-in for a harness, without its terminal: turns, hooks, queue, dialogs, commands (`….harness` runs it)."""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import shlex
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any, BinaryIO

from fleettrio.testing.agents.composer import Composer
from fleettrio.testing.agents.hooks import Answer, Hooks, claude_entries, codex_entries
from fleettrio.testing.agents.records import SessionFile, Transcript

__all__ = ("Agent",)

STOPS_MOST = 8
"""So often Claude Code lets hooks keep it going; Codex has no bound, and this one would never end."""
FOLDED_LINES, FOLDED_CHARS = 4, 800


class Agent(Composer):
    """The composer with a model that says what it was told to say."""

    def __init__(self, options: argparse.Namespace, log: BinaryIO, wake: int) -> None:
        super().__init__(options, log)
        self.is_codex = options.harness == "codex"
        self.session = options.session_id or str(uuid.uuid4())
        self.cwd = os.getcwd()
        self.woken: collections.deque[str] = collections.deque()
        self.ends_at: float | None = None
        self._wake = wake
        self._queued: list[tuple[str, Answer]] = []
        self._prompt_id = str(uuid.uuid4())
        self._stops = 0
        self._is_begun = self._in_turn = False
        self.last_words = ""
        home = Path(os.environ.get("HOME", "/"))
        config = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
        codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
        self._projects = (codex / "sessions") if self.is_codex else (config / "projects")
        self._transcript = Transcript(self._projects, self.session, self.cwd)
        self._file = None if self.is_codex else SessionFile(config / "sessions", self.cwd)
        own = config / "settings.json"
        settings = [*([str(own)] if own.exists() else []), *options.settings]
        entries = codex_entries(options.config, codex / "hooks.json") if self.is_codex else claude_entries(settings)
        self.hooks = Hooks(
            entries,
            is_codex=self.is_codex,
            times=options.hook_times,
            lost=options.lose,
            note=self.note,
            woken=self._wake_later,
        )

    # --- its life

    def begin(self) -> None:
        self._status("idle")
        if not self.is_codex:  # Codex announces a session with its first prompt only
            self._start_session("startup")
        if self.options.prompt:
            self._submit(" ".join(self.options.prompt))

    def end(self) -> None:
        self._fire("SessionEnd", reason="prompt_input_exit" if not self.is_codex else "other")
        self.hooks.end()
        if self._file:
            self._file.remove()

    def _start_session(self, source: str) -> None:
        self._is_begun = True
        self._seen("SessionStart", self._fire("SessionStart", source=source))

    def _clear(self) -> None:
        self._fire("SessionEnd", reason="clear")
        self.session = str(uuid.uuid4())
        self._transcript = Transcript(self._projects, self.session, self.cwd)
        self._status("idle")
        self._start_session("clear")

    def _status(self, status: str) -> None:
        self.mode = {"idle": "idle", "busy": "working", "waiting": "dialog"}[status]
        if self._file:
            self._file.write(self.session, status)

    # --- keys

    def lone_escape(self) -> None:
        """The escape key, known by nothing that follows."""
        if self._pending == b"\x1b":
            self._pending = b""
            self._interrupt()

    @property
    def may_be_escape(self) -> bool:
        return self._pending == b"\x1b"

    def _key(self, key: bytes) -> None:
        if key == b"\x1b[A" and self._queued:
            text, _ = self._queued.pop()
            self.draft = text.encode("utf-8", "surrogateescape")
            self._transcript.queue("popAll")
            self.note("taken-back", text=text)
        elif key == b"\x15":
            self.draft = b""
        else:
            super()._key(key)

    def _enter(self) -> None:
        if self.mode == "dialog":
            self._allow()
        elif self.swallow or not self.draft.strip():
            super()._enter()
        else:
            data, self.draft = self.draft, b""
            self._submit(data.decode("utf-8", "surrogateescape"))

    # --- turns

    def _submit(self, text: str) -> None:
        if text == "/quit":
            raise EOFError
        if text == "/clear":
            self._clear()
        elif self.mode == "idle":
            self._prompt(text)
        elif self.is_codex:  # its hook runs when the text is taken
            self._queued.append((text, Answer()))
            self.note("queued", text=text)
        else:
            answer = self._fire("UserPromptSubmit", prompt=_as_pasted(text))
            self._queued.append((text, answer))
            self._transcript.queue("enqueue")
            self.note("queued", text=text)

    def _prompt(self, text: str, *, is_notice: bool = False) -> None:
        self._prompt_id, self._stops = str(uuid.uuid4()), 0
        if not self._is_begun:
            self._start_session("startup")
        prompt = text if is_notice or self.is_codex else _as_pasted(text)
        self._take(text, self._fire("UserPromptSubmit", prompt=prompt))

    def _take(self, text: str, answer: Answer) -> None:
        if answer.blocks:
            self.note("refused", text=text, why=answer.blocks)
            return
        self._transcript.user(text)
        self._status("busy")
        self._in_turn = True
        self.turns += 1
        self.history.append(f"turn {self.turns}: {len(text)} characters")
        self._seen("UserPromptSubmit", answer)
        self.note("turn", text=text, prompt_id=self._prompt_id, session=self.session)
        self._work(text)

    def _work(self, text: str) -> None:
        self.last_words = self.options.say or f"turn {self.turns}.{self._stops} is done"
        if self.options.on_turn:
            self._run_command(text)
        self.ends_at = None if self.options.hold else time.monotonic() + self.options.work

    def _run_command(self, text: str) -> None:
        """What the model's shell does: its output is what the agent says."""
        done = subprocess.run(
            shlex.split(self.options.on_turn),
            input=text.encode("utf-8", "surrogateescape"),
            env=self._env(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        output = done.stdout.decode("utf-8", "replace")
        self.note("command", code=done.returncode, out=output, err=done.stderr.decode("utf-8", "replace"))
        self.last_words = self.options.say or output.strip() or self.last_words

    def finish(self) -> None:
        """The dialog is allowed, or the turn ends, unless a hook keeps it going."""
        if self.mode == "dialog":
            self._allow()
            return
        if self.mode != "working":
            return
        self.ends_at = None
        self._transcript.assistant(self.last_words)
        self.note("said", text=self.last_words)
        active = self._stops > 0
        answer = self._fire("Stop", stop_hook_active=active, last_assistant_message=self.last_words)
        more = [*answer.blocks, *answer.contexts]
        if more and self._stops < STOPS_MOST:
            self._stops += 1
            self.note("goes-on", by="block" if answer.blocks else "context")
            for text in answer.blocks:
                self.note("context", name="Stop", text=text, turn=self.turns)
            self._seen("Stop", Answer(answer.contexts))
            self._work("\n".join(more))
            return
        self._rest("stopped")

    def _allow(self) -> None:
        self.note("allowed")
        self._status("busy" if self._in_turn else "idle")

    def use_tool(self) -> None:
        if self.mode == "working":
            tool = {"tool_name": "Bash", "tool_input": {"command": "true"}, "tool_use_id": f"toolu_{uuid.uuid4().hex}"}
            self._seen("PreToolUse", self._fire("PreToolUse", **tool))
            self._seen("PostToolUse", self._fire("PostToolUse", **tool, tool_response={"stdout": ""}))

    def ask(self) -> None:
        """A permission prompt, in a turn or out of the blue."""
        self._status("waiting")
        self._fire("PermissionRequest", tool_name="Bash", tool_input={"command": "rm -r build"})

    def _interrupt(self) -> None:
        """Claude Code says nothing to its hooks, Codex has an event for it."""
        if self.mode == "idle":
            return
        self.ends_at = None
        if self.is_codex:
            self._fire("Interrupt")
        self._transcript.user("[Request interrupted by user]")
        self._rest("interrupted")

    def _rest(self, how: str) -> None:
        self._status("idle")
        self._in_turn = False
        self.note(how)
        if self._queued:
            text, answer = self._queued.pop(0)
            if self.is_codex:
                self._prompt(text)
                return
            self._transcript.queue("dequeue")
            self._prompt_id, self._stops = str(uuid.uuid4()), 0
            self._take(text, answer)

    def wake(self) -> None:
        """What waiting hooks said begins a turn, once it is idle; a draft stays where it is."""
        while self.woken and self.mode == "idle":
            text = self.woken.popleft()
            self._prompt(f"<task-notification>\n{text}\n</task-notification>", is_notice=True)

    def tick(self) -> None:
        if self.ends_at is not None and time.monotonic() >= self.ends_at and self.mode == "working":
            self.finish()

    # --- hooks

    def _wake_later(self, text: str) -> None:
        self.woken.append(text)
        with contextlib.suppress(OSError):
            os.write(self._wake, b"\0")

    def _seen(self, event: str, answer: Answer) -> None:
        """The model gets the contexts; only now they stand in the transcript."""
        for text in answer.contexts:
            self._transcript.context(event, text)
            self.note("context", name=event, text=text, turn=self.turns)

    def _fire(self, event: str, **fields: object) -> Answer:
        given: dict[str, Any] = {
            "session_id": self.session,
            "transcript_path": str(self._transcript.path),
            "cwd": self.cwd,
            "hook_event_name": event,
            **fields,
        }
        if self.is_codex:
            given |= {"model": "gpt-6-codex", "permission_mode": "default"}
            given |= {} if event in ("SessionStart", "SessionEnd") else {"turn_id": self._prompt_id}
        elif event != "SessionStart":
            given |= {"prompt_id": self._prompt_id, "permission_mode": "default"}
        return self.hooks.fire(event, {**given, **self.options.more}, self._env(), self.cwd)

    def _env(self) -> dict[str, str]:
        if self.is_codex:
            return dict(os.environ)
        own = {"CLAUDECODE": "1", "CLAUDE_PID": str(os.getpid()), "CLAUDE_CODE_SESSION_ID": self.session}
        return {**os.environ, **own, "CLAUDE_PROJECT_DIR": self.cwd, "CLAUDE_CODE_ENTRYPOINT": "cli"}


def _as_pasted(text: str) -> str:
    """Claude Code marks longer pastes, in what its hooks and its model get."""
    if text.count("\n") + 1 < FOLDED_LINES and len(text) <= FOLDED_CHARS:
        return text
    return f'\n\n<pasted_content id="74d4">\n{text}\n</pasted_content id="74d4">\n'
