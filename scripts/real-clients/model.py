"""A model that does what it is told: for trying the real harnesses without an account.

`python model.py PORT LOG` serves Anthropic's messages, and OpenAI's responses and chat completions, as streams. A
prompt scripts it: `SLEEP n`, `SAY text`, `USE tool {json}`; what a tool answered is repeated. Each request is a line of
LOG: what the model really saw.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

RESULT = "result of a tool: "
Json = dict[str, Any]


def texts(content: Any) -> list[str]:
    """The texts of a message, whichever way it is written."""
    if isinstance(content, str):
        return [content]
    found = []
    for part in content or []:
        if part.get("type") == "tool_result":
            found.append(RESULT + " ".join(texts(part.get("content"))))
        elif isinstance(part.get("text"), str):
            found.append(part["text"])
    return found


def decide(parts: list[str]) -> tuple[str, str, Json]:
    """(what is said, tool, its arguments) for the latest part that scripts something; a result counts as the latest."""
    for part in reversed(parts):
        if part.startswith(RESULT):
            return part[:300], "", {}
    for part in reversed(parts):
        if slept := re.search(r"SLEEP (\d+)", part):
            time.sleep(min(int(slept[1]), 60))
        if used := re.search(r"USE ([\w-]+) (\{.*\})\s*$", part, re.MULTILINE):
            return "", used[1], json.loads(used[2])
        if said := re.search(r"SAY (.*)", part):
            return said[1], "", {}
    return "nothing was scripted", "", {}


def anthropic(asked: Json) -> list[tuple[str, Any]]:
    users = [message for message in asked["messages"] if message["role"] == "user"]
    said, tool, arguments = decide(texts(users[-1]["content"]))
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": name("msg"), "type": "message", "role": "assistant", "model": asked["model"], "content": []}
    if tool:
        block: Json = {"type": "tool_use", "id": name("toolu"), "name": tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": said}
    stop = {"stop_reason": "tool_use" if tool else "end_turn", "stop_sequence": None}
    begun = message | {"stop_reason": None, "stop_sequence": None, "usage": usage}
    events: list[Json] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": usage},
        {"type": "message_stop"},
    ]
    return [(event["type"], event) for event in events]


def responses(asked: Json) -> list[tuple[str, Any]]:
    items = asked["input"]
    if items[-1].get("type") == "function_call_output":
        parts = [RESULT + json.dumps(items[-1]["output"])]
    else:
        parts = texts(next(item["content"] for item in reversed(items) if item.get("role") == "user"))
    said, tool, arguments = decide(parts)
    item: Json
    if tool:
        space, _, short = tool.rpartition("__")
        item = {"type": "function_call", "call_id": name("call"), "name": short, "arguments": json.dumps(arguments)}
        item |= {"namespace": space} if space else {}
    else:
        content = [{"type": "output_text", "text": said, "annotations": []}]
        item = {"type": "message", "role": "assistant", "content": content}
    item |= {"id": name("item"), "status": "completed"}
    counted = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    whole: Json = {"id": name("resp"), "object": "response", "output": [item], "usage": counted, "status": "completed"}
    events: list[Json] = [
        {"type": "response.created", "response": whole | {"output": [], "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [(event["type"], event) for event in events]


def chat(asked: Json) -> list[tuple[str, Any]]:
    last = asked["messages"][-1]
    parts = texts(last["content"])
    said, tool, arguments = decide([RESULT + " ".join(parts)] if last["role"] == "tool" else parts)
    base: Json = {"id": name("chat"), "object": "chat.completion.chunk", "created": 1, "model": asked["model"]}
    if tool:
        function = {"name": tool, "arguments": json.dumps(arguments)}
        delta: Json = {"tool_calls": [{"index": 0, "id": name("call"), "type": "function", "function": function}]}
    else:
        delta = {"content": said}
    end = "tool_calls" if tool else "stop"
    chunks: list[Json] = [
        {"delta": {"role": "assistant", **delta}, "finish_reason": None},
        {"delta": {}, "finish_reason": end},
    ]
    return [*(("", base | {"choices": [{"index": 0, **chunk}]}) for chunk in chunks), ("", "[DONE]")]


def name(kind: str) -> str:
    return f"{kind}_{time.time_ns()}"


WAYS = {"/messages": anthropic, "/responses": responses, "/chat/completions": chat}
LOCK = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    log: Path

    def log_message(self, *_: Any) -> None:
        """Nothing but requests is kept."""

    def do_GET(self) -> None:
        self._answer(b'{"data":[],"models":[]}', "application/json")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        with LOCK, self.log.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"path": self.path, "request": asked}) + "\n")
        way = next((way for end, way in WAYS.items() if self.path.partition("?")[0].endswith(end)), None)
        if way is None:
            self._answer(b'{"input_tokens":1}', "application/json")
            return
        lines = []
        for event, data in way(asked):
            lines += [f"event: {event}\n"] if event else []
            lines.append(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
        self._answer("".join(lines).encode(), "text/event-stream")

    def _answer(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


if __name__ == "__main__":
    Handler.log = Path(sys.argv[2])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
