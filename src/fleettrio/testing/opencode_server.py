"""A server that answers like the one inside opencode, as far as deliveries go; in threads, on a port of its own.

A session is busy from its prompt on until that was asked for (`hold`: until `finish`). It is a context manager.
"""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

__all__ = ("OpencodeServer",)


class OpencodeServer:
    """`sessions` are those that exist, `asking` the ids of open permission requests."""

    def __init__(self, *sessions: str, password: str = "", deaf: bool = False) -> None:
        self.sessions = set(sessions)
        self.asking: list[str] = []
        self.busy: dict[str, bool] = {}
        """Session → whether its turn was asked about already."""
        self.hold = False
        self.deaf = deaf
        """Takes prompts and begins no turn."""
        self.turns: list[str] = []
        self.queue: list[tuple[str, str]] = []
        self.requests: list[str] = []
        self.odd: dict[str, tuple[int, bytes]] = {}
        """Path → status and body to answer with, whatever was asked."""
        self._lock = threading.Lock()
        self._expected = "Basic " + base64.b64encode(f"opencode:{password}".encode()).decode() if password else ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), name="opencode", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def finish(self) -> None:
        """End the turns that are held."""
        with self._lock:
            over, self.busy = list(self.busy), {}
            self._next(over)

    def answer(self, method: str, path: str, auth: str, body: bytes) -> tuple[int, bytes]:
        with self._lock:
            self.requests.append(f"{method} {path}")
            if auth != self._expected:
                return 401, b""
            if path in self.odd:
                return self.odd[path]
            match method, path.strip("/").split("/"):
                case "GET", ["session", "status"]:
                    return 200, json.dumps(self._status()).encode()
                case "GET", ["permission"]:
                    return 200, json.dumps([{"id": one, "sessionID": one} for one in self.asking]).encode()
                case "GET", ["session", name] if name in self.sessions:
                    return 200, json.dumps({"id": name}).encode()
                case "POST", ["session", name, "prompt_async"] if name in self.sessions:
                    return self._prompt(name, json.loads(body))
            return 404, b"{}"

    def _status(self) -> dict[str, Any]:
        shown = {name: {"type": "busy"} for name in self.busy}
        if not self.hold:
            over = [name for name, was_seen in self.busy.items() if was_seen]
            self.busy = dict.fromkeys(set(self.busy) - set(over), True)
            self._next(over)
        return shown

    def _next(self, over: list[str]) -> None:
        """What was queued behind the turns that are over begins."""
        for name, text in [entry for entry in self.queue if entry[0] in over]:
            if name not in self.busy:
                self.queue.remove((name, text))
                self.turns.append(text)
                self.busy[name] = False

    def _prompt(self, name: str, request: Any) -> tuple[int, bytes]:
        text = "".join(part["text"] for part in request["parts"])
        if self.deaf:
            return 204, b""
        if name in self.busy:
            self.queue.append((name, text))
            return 204, b""
        self.turns.append(text)
        self.busy[name] = False
        return 204, b""

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                status, said = owner.answer(self.command, self.path, self.headers.get("authorization") or "", body)
                self.send_response(status)
                if status != 204:
                    self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = _answer  # noqa: N815 - what the library calls

            def log_message(self, *args: Any) -> None:
                """Nothing is printed."""

        return Handler
