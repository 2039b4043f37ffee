"""A herdr server for tests: real sockets, its rules as strict as herdr's, composers in its panes.

Rules it enforces: one request a connection, then it closes; a first line of at most 1 MiB; `agent.prompt` goes to an
agent as a paste frame, unchanged, and Enter; a blocked agent is refused (`agent_blocked`, unless `is_old`); a prompt
without an effect is `agent_prompt_stalled`; an agent is `done` after a turn until somebody looks; a pane that is moved
has another id, and who waits for its agent then hears `agent_not_running`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from fleettrio.testing.agents.composer import PASTE_BEGIN, PASTE_END, Composer

__all__ = ("HerdrAgentStandIn", "HerdrServer")

MOST_LINE = 1024 * 1024
EFFECT_S = 0.4
"""How long an effect is waited for; herdr itself waits 5 s."""
RULE = "─" * 40

Params = dict[str, Any]


class Refused(Exception):
    """An error as herdr words it."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code


class HerdrAgentStandIn:
    """A composer in a pane of the server. `raw` is every byte that it was given."""

    def __init__(self, pane: str, terminal: str, kind: str, session: str, **changes: object) -> None:
        usual: dict[str, object] = {
            "mode": "idle",
            "draft": "",
            "swallow": 0,
            "swallow_as": "nothing",
            "paste": True,
            "hold": False,
            "dialog_on_paste": False,
        }
        self.log = io.BytesIO()
        self.composer = Composer(argparse.Namespace(**{**usual, **changes}), self.log)
        self.pane, self.terminal, self.kind, self.session = pane, terminal, kind, session
        self.name: str | None = None
        self.args: list[str] = []
        self.env: dict[str, str] = {}
        self.raw = b""
        self.seq = 0
        self.is_unseen = False
        self.status_override = ""
        self.launch_pending = False
        self.on_prompt: Callable[[], None] | None = None
        """Called when a prompt was taken, before its effect is waited for."""

    def turns(self) -> list[str]:
        return [event["text"] for event in self.events("turn")]

    def events(self, name: str) -> list[dict[str, Any]]:
        events = [json.loads(line) for line in self.log.getvalue().split(b"\n") if line]
        return [event for event in events if event["event"] == name]

    @property
    def status(self) -> str:
        if self.status_override:
            return self.status_override
        mode = self.composer.mode
        if mode == "idle":
            return "done" if self.is_unseen else "idle"
        return {"dialog": "blocked", "working": "working"}[mode]

    def feed(self, data: bytes) -> None:
        before = (self.composer.mode, self.composer.turns)
        self.raw += data
        self.composer.feed(data)
        if (self.composer.mode, self.composer.turns) != before:
            self.seq += 1
            self.is_unseen = self.composer.turns > before[1]

    def screen(self) -> str:
        """What a Claude Code of its age shows: only as much as is read."""
        if self.composer.mode == "dialog":
            return f"{RULE}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend\n"
        draft = self.composer.draft.decode("utf-8", "replace").replace("\n", "\n  ")
        busy = "✻ Pondering…\n" if self.composer.mode == "working" else ""
        return f"{busy}{RULE}\n❯\xa0{draft}\n{RULE}\n  ? for shortcuts\n"

    def info(self) -> Params:
        return {
            "terminal_id": self.terminal,
            "name": self.name,
            "agent": self.kind,
            "agent_status": self.status,
            "agent_session": {"source": f"herdr:{self.kind}", "agent": self.kind, "kind": "id", "value": self.session},
            "workspace_id": self.pane.partition(":")[0],
            "tab_id": "t1",
            "pane_id": self.pane,
            "focused": False,
            "launch_pending": self.launch_pending,
            "state_change_seq": self.seq,
            "revision": self.seq,
            "tokens": {},
            "something_newer": {"than": "we know"},
        }


class HerdrServer:
    """`with HerdrServer() as server:` — its `socket`, its `agents`, and the `requests` it was asked."""

    def __init__(self, *, is_old: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ft-"))
        self.socket = str(self.folder / "herdr.sock")
        self.is_old = is_old
        self.agents: list[HerdrAgentStandIn] = []
        self.requests: list[tuple[str, Params]] = []
        self.workspaces: dict[str, Params] = {}
        self.process: tuple[int, str] = (os.getpid(), "/dev/pts/none")
        self.busy_shells = 0
        """So many starts find the shell of their pane busy."""
        self.garbage: bytes | None = None
        """Sent instead of any answer."""
        self._count = 0
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                line = self.rfile.readline(MOST_LINE + 1)
                self.wfile.write(server.answer(line))  # and then the connection is closed: one request each

        self._server = socketserver.ThreadingUnixStreamServer(self.socket, Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, kind: str = "claude", session: str = "session-1", **changes: object) -> HerdrAgentStandIn:
        """An agent in a pane of its own, with a composer's options."""
        self._count += 1
        agent = HerdrAgentStandIn(f"w{self._count}:p1", f"term-{self._count}", kind, session, **changes)
        self.agents.append(agent)
        return agent

    def target(self, agent: HerdrAgentStandIn) -> str:
        return f"{self.socket}#{agent.terminal}"

    def move(self, agent: HerdrAgentStandIn) -> None:
        """Into another workspace: the pane gets another id, the terminal keeps its own."""
        self._count += 1
        agent.pane = f"w{self._count}:p9"

    def answer(self, line: bytes) -> bytes:
        if self.garbage is not None:
            return self.garbage
        request: Params = {"id": ""}
        try:
            if len(line) > MOST_LINE:
                raise Refused("invalid_request", "the first line is too long")
            request = json.loads(line)
            self.requests.append((request["method"], request["params"]))
            method = getattr(self, "_" + request["method"].replace(".", "_"), None)
            if method is None:
                raise Refused("invalid_request", f"unknown method {request['method']}")
            body: Params = {"result": method(request["params"])}
        except Refused as error:
            body = {"error": {"code": error.code, "message": str(error)}}
        return json.dumps({"id": request["id"], **body}).encode() + b"\n"

    # --- methods

    def _ping(self, params: Params) -> Params:
        version = "0.8.0" if self.is_old else "0.8.2"
        return {"type": "pong", "version": version, "protocol": 20, "capabilities": None}

    def _agent_list(self, params: Params) -> Params:
        with self._lock:
            return {"type": "agent_list", "agents": [agent.info() for agent in self.agents]}

    def _agent_get(self, params: Params) -> Params:
        return {"type": "agent_info", "agent": self._find(params["target"]).info()}

    def _agent_read(self, params: Params) -> Params:
        agent = self._find(params["target"])
        assert params["source"] in ("visible", "recent", "recent_unwrapped", "detection")
        return {"type": "pane_read", "read": {"pane_id": agent.pane, "text": agent.screen(), "truncated": False}}

    def _agent_prompt(self, params: Params) -> Params:
        agent = self._find(params["target"])
        if not params["text"]:
            raise Refused("empty_agent_prompt")
        if agent.status == "blocked" and not self.is_old:
            raise Refused("agent_blocked", "the agent is blocked")
        before, pane = agent.seq, agent.pane
        text = params["text"].encode()
        with self._lock:
            agent.feed(PASTE_BEGIN + text + PASTE_END if agent.composer.options.paste else text)
            agent.feed(b"\r")
        if agent.on_prompt is not None:
            agent.on_prompt()
        if "wait" in params:
            self._wait(agent, before, pane)
        return {"type": "agent_prompted", "agent": agent.info()}

    def _wait(self, agent: HerdrAgentStandIn, before: int, pane: str) -> None:
        bound = time.monotonic() + EFFECT_S
        while agent.seq == before and agent.status != "working" and time.monotonic() < bound:
            time.sleep(0.01)
        if agent.pane != pane or agent not in self.agents:
            raise Refused("agent_not_running", "the agent is not running any more")
        if agent.seq == before and agent.status != "working":
            raise Refused("agent_prompt_stalled", "the prompt had no effect")

    def _pane_process_info(self, params: Params) -> Params:
        pid, tty = self.process
        info = {"pane_id": params["pane_id"], "shell_pid": pid, "tty": tty, "foreground_processes": []}
        return {"type": "pane_process_info", "process_info": info}

    def _workspace_create(self, params: Params) -> Params:
        self._count += 1
        workspace = {"workspace_id": f"w{self._count}", "label": params["label"], "number": self._count}
        self.workspaces[f"w{self._count}"] = {**workspace, "env": params.get("env", {}), "cwd": params["cwd"]}
        pane = {"pane_id": f"w{self._count}:p1", "terminal_id": f"term-{self._count}"}
        return {"type": "workspace_created", "workspace": workspace, "tab": {}, "root_pane": pane}

    def _workspace_list(self, params: Params) -> Params:
        listed = [{"workspace_id": key, "label": value["label"]} for key, value in self.workspaces.items()]
        return {"type": "workspace_list", "workspaces": listed}

    def _workspace_close(self, params: Params) -> Params:
        if self.workspaces.pop(params["workspace_id"], None) is None:
            raise Refused("workspace_not_found")
        with self._lock:
            self.agents[:] = [a for a in self.agents if a.pane.partition(":")[0] != params["workspace_id"]]
        return {"type": "ok"}

    def _agent_start(self, params: Params) -> Params:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", params["name"]):
            raise Refused("invalid_agent_name", params["name"])
        if self.busy_shells:
            self.busy_shells -= 1
            raise Refused("agent_pane_busy", "the shell is busy")
        if params["kind"] not in ("claude", "codex", "opencode"):
            raise Refused("unsupported_agent_kind", f"no agent kind {params['kind']}")
        workspace = self.workspaces[params["pane_id"].partition(":")[0]]
        number = params["pane_id"].partition(":")[0].removeprefix("w")
        agent = HerdrAgentStandIn(params["pane_id"], f"term-{number}", params["kind"], f"session-{number}")
        agent.name, agent.args, agent.env = params["name"], params["args"], workspace["env"]
        self.agents.append(agent)
        return {"type": "agent_started", "agent": agent.info(), "argv": [params["kind"], *params["args"]]}

    def _find(self, target: str) -> HerdrAgentStandIn:
        found = [agent for agent in self.agents if target in (agent.terminal, agent.pane, agent.name)]
        if not found:
            raise Refused("agent_not_found", f"agent target {target} not found")
        if len(found) > 1:
            raise Refused("agent_target_ambiguous", f"agent target {target} is ambiguous")
        return found[0]
