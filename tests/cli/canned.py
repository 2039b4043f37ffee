"""Facts for a fake daemon to tell, hostile where a peer could make them so."""

from __future__ import annotations

from typing import Any

from fleettrio.api.schema import (
    AgentView,
    Fleet,
    HostView,
    InboxMessage,
    JournalLine,
    MessageView,
    SendResult,
    Status,
    Waited,
)

HOSTILE = "\x1b]0;owned\x07[bold red]worker\u202e[/] 日本語\r\nnext: rm -rf /"
NOW = 2_100_000_000_000
MSG = "0190a000-0000-7000-8000-00009f31c2d4"
TRACE = "ab" * 16


def view(msg_id: str = MSG, **changes: Any) -> MessageView:
    facts: dict[str, Any] = {
        "msg_id": msg_id,
        "short": msg_id[-8:],
        "kind": "SEND",
        "direction": "out",
        "sender": "human@alpha",
        "recipient": "worker@beta",
        "gid": "gid-worker",
        "state": "waiting",
        "reason": "",
        "detail": "",
        "sentence": "worker@beta has not taken it yet: it works since 14:02.",
        "trace_id": TRACE,
        "ts": NOW,
        "expires_at": NOW + 3_600_000,
        "at": NOW,
        "via": "",
        "size": 12,
        "re": None,
        "answered_by": None,
        "exit_code": 6,
    }
    return MessageView(**(facts | changes))


def message(
    body: bytes = b"all done", msg_id: str = "0190a000-0000-7000-8000-0000aaaa1111", **changes: Any
) -> InboxMessage:
    facts: dict[str, Any] = {
        "msg_id": msg_id,
        "short": msg_id[-8:],
        "kind": "REPLY",
        "sender": "worker@beta",
        "gid": "gid-human",
        "trace_id": TRACE,
        "ts": NOW,
        "re": MSG,
        "intent": "directive",
        "auto": False,
        "repeat": False,
        "wants_reply": False,
        "body": body,
    }
    return InboxMessage(**(facts | changes))


def sent(*views: MessageView) -> SendResult:
    return SendResult(TRACE, list(views or (view(),)))


def answered(body: bytes = b"all done", cursor: int = 5) -> Waited:
    done = view(state="injected", sentence="answered", exit_code=0, answered_by="0190a000-0000-7000-8000-0000aaaa1111")
    return Waited(True, [done], [message(body)], cursor)


def not_yet() -> Waited:
    return Waited(False, [view()], [], 0)


def journal(**changes: Any) -> JournalLine:
    facts: dict[str, Any] = {
        "at": NOW,
        "what": "confirmed",
        "msg_id": MSG,
        "gid": "gid-worker",
        "trace_id": TRACE,
        "peer": "beta",
        "reason": "",
        "detail": "the broker has it",
        "host": "alpha",
    }
    return JournalLine(**(facts | changes))


def agent(name: str, host: str = "alpha", **changes: Any) -> AgentView:
    facts: dict[str, Any] = {
        "gid": f"gid-{name}",
        "name": name,
        "host": host,
        "address": f"{name}@{host}",
        "role": "worker",
        "takes": "push",
        "groups": ["reviewers"],
        "status": "working",
        "since": NOW,
        "harness": "script",
        "path": "tmux",
        "wakes": True,
        "waiting": 3,
    }
    return AgentView(**(facts | changes))


def host(name: str, **changes: Any) -> HostView:
    facts: dict[str, Any] = {
        "host": name,
        "is_self": name == "alpha",
        "status": "up",
        "heard_at": NOW,
        "offset_ms": 12,
        "version": "0.1.0",
        "trusted": True,
        "refuses_us": "",
        "we_refuse": "",
        "agents": 1,
    }
    return HostView(**(facts | changes))


def fleet() -> Fleet:
    return Fleet(
        "alpha",
        "prod-fleet",
        [
            host("alpha"),
            host("beta", status="unknown", refuses_us="unknown-key"),
            host("g" * 32, trusted=False, agents=0),
        ],
        [
            agent("lead", takes="pull", path="pull", wakes=False, waiting=0),
            agent("a-worker-with-quite-a-long-name1", groups=["one-group-with-a-name", "another-one"]),
            agent("worker", "beta", role=HOSTILE),
        ],
    )


def status(**changes: Any) -> Status:
    facts: dict[str, Any] = {
        "host": "alpha",
        "fleet_id": "prod-fleet",
        "version": "0.1.0",
        "pid": 4711,
        "started_at": NOW,
        "home": "/home/someone/.local/state/fleettrio/with/a/rather/long/path/that/goes/on/and/on",
        "implementation": "compiled",
        "lane": "fast",
        "broker": "connected",
        "broker_detail": "broker.example:5671",
        "broker_since": NOW,
        "waiting": 3,
        "outstanding": 1,
        "refused": {"signature": 2},
        "problems": [f"beta refuses our messages: {HOSTILE}"],
        "next_step": "on beta: fleettrio host import fleet.cbor",
        "fleet": fleet(),
    }
    return Status(**(facts | changes))
