"""Runs the hooks of a stand-in agent as the real program would: by `/bin/sh -c`, apart, JSON both ways.

What a hook printed is judged by the rules of the harness: Claude Code takes plain text as context at some events and
lets unknown keys pass; Codex drops the whole output for one unknown key and says nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ("Answer", "Hooks", "claude_entries", "codex_entries")

CONTEXT_LIMIT = 10_000
"""Characters. What is longer goes into a file, and the model sees the beginning only."""
_PREVIEW = 2000
_PLAIN_IS_CONTEXT = ("UserPromptSubmit", "SessionStart")
_UNIVERSAL = {"continue", "stopReason", "suppressOutput", "systemMessage"}
_SPECIFIC = {"hookEventName", "additionalContext"}
_CODEX_KEYS = {
    "UserPromptSubmit": {"decision", "reason", "hookSpecificOutput"},
    "PreToolUse": {"decision", "reason", "hookSpecificOutput"},
    "PostToolUse": {"decision", "reason", "hookSpecificOutput"},
    "SessionStart": {"hookSpecificOutput"},
    "PermissionRequest": {"hookSpecificOutput"},
    "Stop": {"decision", "reason"},
}


@dataclasses.dataclass(slots=True)
class Answer:
    """What the hooks of one event said, together."""

    contexts: list[str] = dataclasses.field(default_factory=list)
    blocks: list[str] = dataclasses.field(default_factory=list)
    """Reasons: of a prompt that is not sent, of a turn that goes on."""


Entry = dict[str, Any]


def claude_entries(settings: list[str]) -> dict[str, list[Entry]]:
    """Event → hooks, out of files or JSON texts with a `hooks` key."""
    found: dict[str, list[Entry]] = {}
    for setting in settings:
        text = setting if setting.lstrip().startswith("{") else Path(setting).read_text("utf-8")
        _add(found, json.loads(text).get("hooks", {}))
    return found


def codex_entries(overrides: list[str], file: Path) -> dict[str, list[Entry]]:
    """Event → hooks, out of `hooks.json` and of `-c key=value` (values are TOML)."""
    found: dict[str, list[Entry]] = {}
    if file.exists():
        _add(found, json.loads(file.read_text("utf-8")).get("hooks", {}))
    for override in overrides:
        key, _, value = override.partition("=")
        if key.strip() == "hooks" or key.strip().startswith("hooks."):
            _add(found, tomllib.loads(f"{key} = {value}")["hooks"])
    return found


def _add(found: dict[str, list[Entry]], hooks: Mapping[str, Any]) -> None:
    for event, groups in hooks.items():
        if isinstance(groups, list):
            entries = [entry for group in groups for entry in group["hooks"] if entry.get("type") == "command"]
            known = found.setdefault(event, [])
            known += [entry for entry in entries if entry not in known]  # identical ones run once


class Hooks:
    """`note(event, **fields)` writes the log; `woken` is called, in a thread, with what a waiting hook said.

    `times`: each hook runs so often. `lost`: an event whose hooks print in vain, as when they were ended too late.
    """

    def __init__(
        self,
        entries: dict[str, list[Entry]],
        *,
        is_codex: bool,
        times: int,
        lost: str,
        note: Callable[..., None],
        woken: Callable[[str], None],
    ) -> None:
        self.entries = entries
        self._is_codex = is_codex
        self._times = times
        self._lost = lost
        self._note = note
        self._woken = woken
        self._waiting: list[subprocess.Popen[bytes]] = []

    def fire(self, event: str, given: Mapping[str, Any], env: Mapping[str, str], cwd: str) -> Answer:
        """Run the event's hooks to their end; those that wake later go on beside."""
        answer = Answer()
        stdin = json.dumps(given).encode()
        for entry in self.entries.get(event, ()):
            for _ in range(self._times):
                if entry.get("asyncRewake"):
                    self._wait_beside(entry, stdin, env, cwd)
                else:
                    self._judge(event, *self._run(event, entry, stdin, env, cwd), answer)
        return answer

    def end(self) -> None:
        """The program ends, and with it whatever waits to wake it."""
        for process in self._waiting:
            _end(process)

    def _run(self, event: str, entry: Entry, stdin: bytes, env: Mapping[str, str], cwd: str) -> tuple[int, str, str]:
        began = time.monotonic()
        process = _start(entry, env, cwd)
        try:
            out, err = process.communicate(stdin, float(entry.get("timeout", 60)))
            code = process.returncode
        except subprocess.TimeoutExpired:
            _end(process)
            process.communicate()
            code, out, err = -1, b"", b""  # its output is lost, the turn goes on
        texts = [data.decode("utf-8", "replace") for data in (out, err)]
        spent_ms = round((time.monotonic() - began) * 1000)
        self._note("hook", name=event, code=code, out=texts[0], err=texts[1], ms=spent_ms)
        return (code, texts[0], texts[1]) if event != self._lost else (-1, "", "")

    def _wait_beside(self, entry: Entry, stdin: bytes, env: Mapping[str, str], cwd: str) -> None:
        process = _start(entry, env, cwd)
        self._waiting = [one for one in self._waiting if one.poll() is None] + [process]

        def wait() -> None:
            try:
                _, err = process.communicate(stdin, float(entry.get("timeout", 600)))
            except subprocess.TimeoutExpired:
                _end(process)
                process.communicate()
                return
            if process.returncode == 2:
                self._woken(err.decode("utf-8", "replace"))

        threading.Thread(target=wait, daemon=True).start()

    def _judge(self, event: str, code: int, out: str, err: str, answer: Answer) -> None:
        if code == 2:
            answer.blocks.append(err)
            return
        if code != 0 or not out.strip():
            return
        if not out.lstrip().startswith("{"):
            if event in _PLAIN_IS_CONTEXT:
                answer.contexts.append(_limited(out))
            return
        output = self._readable(event, out)
        if output.get("decision") == "block" and output.get("reason"):
            answer.blocks.append(str(output["reason"]))
        specific = output.get("hookSpecificOutput")
        if isinstance(specific, dict) and specific.get("hookEventName") == event:
            answer.contexts += [_limited(text) for text in _texts(specific.get("additionalContext"))]

    def _readable(self, event: str, out: str) -> dict[str, Any]:
        """The output, empty where the harness would not take it."""
        try:
            output = json.loads(out)
        except ValueError:
            output = None
        if not isinstance(output, dict):
            self._note("dropped", name=event, out=out)
            return {}
        if self._is_codex and not _is_strict(event, output):
            self._note("dropped", name=event, out=out)
            return {}
        return output


def _is_strict(event: str, output: dict[str, Any]) -> bool:
    if not set(output) <= _UNIVERSAL | _CODEX_KEYS.get(event, set()):
        return False
    specific = output.get("hookSpecificOutput", {})
    return isinstance(specific, dict) and set(specific) <= _SPECIFIC


def _texts(context: object) -> Iterator[str]:
    if isinstance(context, str) and context:
        yield context


def _limited(text: str) -> str:
    return text if len(text) <= CONTEXT_LIMIT else f"<persisted-output>\n{text[:_PREVIEW]}"


def _start(entry: Entry, env: Mapping[str, str], cwd: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", entry["command"]],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """With what it started: it leads a session of its own."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):  # whoever waits for it in a thread was quicker
            os.killpg(process.pid, signal.SIGKILL)
