"""The files that a stand-in agent keeps, as Claude Code does: what it is doing now, and its transcript."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from pathlib import Path
from typing import Any

__all__ = ("SessionFile", "Transcript")


class SessionFile:
    """`sessions/<pid>.json`: rewritten at every change, also after interrupts; removed at the end."""

    def __init__(self, folder: Path, cwd: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{os.getpid()}.json"
        self._cwd = cwd
        self._started_ms = _now_ms()

    def write(self, session: str, status: str) -> None:
        facts: dict[str, Any] = {
            "pid": os.getpid(),
            "sessionId": session,
            "cwd": self._cwd,
            "startedAt": self._started_ms,
            "version": "2.1.332",
            "kind": "interactive",
            "entrypoint": "cli",
            "status": status,
            "statusUpdatedAt": _now_ms(),
        }
        if status == "waiting":
            facts["waitingFor"] = "permission prompt"
        draft = self._path.with_suffix(".tmp")
        draft.write_text(json.dumps(facts), "utf-8")
        draft.replace(self._path)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


class Transcript:
    """One JSON object a line; contexts stand there only when they really went in."""

    def __init__(self, folder: Path, session: str, cwd: str) -> None:
        place = folder / re.sub(r"[^a-zA-Z0-9]", "-", cwd)
        place.mkdir(parents=True, exist_ok=True)
        self.path = place / f"{session}.jsonl"
        self._session = session
        self.path.touch()

    def user(self, text: str) -> None:
        self._add("user", message={"role": "user", "content": text})

    def assistant(self, text: str) -> None:
        self._add("assistant", message={"role": "assistant", "content": [{"type": "text", "text": text}]})

    def context(self, event: str, text: str) -> None:
        attachment = {"type": "hook_additional_context", "content": [text], "hookName": event, "hookEvent": event}
        self._add("attachment", attachment=attachment)

    def queue(self, operation: str) -> None:
        self._add("queue-operation", operation=operation)

    def _add(self, kind: str, **fields: object) -> None:
        line = {"type": kind, "uuid": str(uuid.uuid4()), "sessionId": self._session, **fields}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
