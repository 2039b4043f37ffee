"""`make real`: the real Claude Code, Codex and opencode, one after the other, against a scripted model.

Nothing is installed and no account is used: what is not on PATH is passed over, and said. All of it lives in a folder
of its own, with a HOME and a tmux server of its own, and is ended at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fleettrio.clients.harnesses.launch import INSTALL

MODEL = Path(__file__).with_name("model.py")
KEY = "sk-ant-test-0123456789abcdefghij"
TOOLS = {"claude": "mcp__fleet__fleet_reply", "codex": "mcp__fleet__fleet_reply", "opencode": "fleet_fleet_reply"}
ARGUMENTS = {"claude": "-- --permission-mode default", "codex": "", "opencode": ""}
START_S = 120.0


class Bench:
    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.work = folder, folder / "work"
        self.tmux = ["tmux", "-L", f"real-{os.getpid()}", "-f", "/dev/null"]
        program = f"{shlex.quote(sys.executable)} -P -m fleettrio"
        self.program = program
        self.env = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "FLEETTRIO_HOME": str(folder / "ft"),
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CODEX_HOME": str(folder / ".codex"),
            "SCRIPT_KEY": "none",
        }
        self._seed(port)

    def _seed(self, port: int) -> None:
        """What each asks a person at its first start, and where the model is."""
        self.work.mkdir()
        trusted = {str(self.work): {"hasTrustDialogAccepted": True}}
        claude = {"hasCompletedOnboarding": True, "theme": "dark", "projects": trusted}
        claude["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
        (self.folder / ".claude.json").write_text(json.dumps(claude))
        (self.folder / ".codex").mkdir()
        (self.folder / ".codex" / "config.toml").write_text(
            'model = "scripted"\nmodel_provider = "scripted"\n[model_providers.scripted]\nname = "scripted"\n'
            f'base_url = "http://127.0.0.1:{port}/v1"\nwire_api = "responses"\nenv_key = "SCRIPT_KEY"\n'
            f'[projects."{self.work}"]\ntrust_level = "trusted"\n'
        )
        options = {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "none"}
        provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"name": "m"}}}
        own = self.folder / ".config" / "opencode"
        own.mkdir(parents=True)
        (own / "opencode.json").write_text(json.dumps({"model": "scripted/m", "provider": {"scripted": provider}}))

    def type(self, pane: str, line: str) -> None:
        subprocess.run([*self.tmux, "send-keys", "-t", pane, "-l", "--", line], check=True)
        time.sleep(0.4)
        subprocess.run([*self.tmux, "send-keys", "-t", pane, "Enter"], check=True)

    def open(self, pane: str) -> None:
        command = [*self.tmux, "new-session", "-d", "-s", pane, "-x", "150", "-y", "45", "-c", str(self.work), "sh"]
        subprocess.run(command, check=True, env=self.env)

    def person(self, words: str, limit_s: float = 60) -> str:
        """What a command prints to the person at a terminal."""
        out, done = self.folder / "out", self.folder / "done"
        done.unlink(missing_ok=True)
        self.type("person", f"{self.program} {words} > {out} 2>&1; : > {done}")
        until(done.exists, limit_s)
        return out.read_text("utf-8", "replace")

    def agent(self) -> str:
        done = subprocess.run(
            [*shlex.split(self.program), "list", "--json"], env=self.env, capture_output=True, text=True, check=False
        )
        agents = json.loads(done.stdout)["agents"] if done.returncode == 0 else []
        return next((agent["status"] for agent in agents if agent["name"] == "real"), "")

    def screen(self) -> str:
        done = subprocess.run(
            [*self.tmux, "capture-pane", "-p", "-t", "agent"], capture_output=True, text=True, check=False
        )
        return done.stdout


def until(seen: Callable[[], object], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if seen():
            return True
        time.sleep(0.2)
    return False


def points(bench: Bench, harness: str) -> list[tuple[str, bool]]:
    ready = until(lambda: bench.agent() == "idle" and re.search(r"[❯›]|Ask anything", bench.screen()), START_S)
    words = bench.person("send real 'SAY one' --wait --timeout 40s")
    call = shlex.quote(f'USE {TOOLS[harness]} {{"id":"@last","text":"two"}}')
    tool = bench.person(f"send real {call} --wait --timeout 40s")
    until(lambda: bench.agent() == "idle", 10)
    bench.type("agent", "SLEEP 5 SAY slow")
    worked = until(lambda: bench.agent() == "working", 4)
    turn = bench.person("send real 'SAY three' --when turn --wait --timeout 40s")
    probe = bench.person(f"doctor --probe {harness} --json", 90)
    return [
        ("it starts, and rests", ready),
        ("a message gets in, its last words come back", "last words" in words and "one" in words),
        ("it replies by the tool of MCP", "last words" not in tool and "answered" in tool and "two" in tool),
        ("it is seen at work", worked),
        ("what waits for the turn's end lands there", "answered" in turn and "three" in turn),
        ("doctor --probe", '"seen"' in probe),
    ]


def main() -> int:
    failed = 0
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    for harness in sys.argv[1:] or list(TOOLS):
        if shutil.which(harness) is None:
            print(f"{harness}: not on PATH; {INSTALL[harness]}")
            continue
        version = subprocess.run([harness, "--version"], capture_output=True, text=True, check=False).stdout.strip()
        print(f"{harness} {version}")
        with tempfile.TemporaryDirectory(prefix="real-", ignore_cleanup_errors=True) as name:
            bench = Bench(Path(name), port)
            model = subprocess.Popen([sys.executable, str(MODEL), str(port), str(bench.folder / "model.log")])
            try:
                bench.open("person")
                bench.person("up")
                bench.open("agent")
                bench.type("agent", f"exec {bench.program} {harness} --name real {ARGUMENTS[harness]}")
                for point, is_seen in points(bench, harness):
                    failed += not is_seen
                    print(f"  {'seen' if is_seen else 'NOT SEEN':9} {point}", flush=True)
            finally:
                with contextlib.suppress(subprocess.CalledProcessError):
                    bench.person("down", 15)
                subprocess.run([*bench.tmux, "kill-server"], check=False)
                model.terminate()
                model.wait()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
