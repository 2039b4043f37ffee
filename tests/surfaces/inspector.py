"""`make inspector`: the MCP inspector's command line calls every tool, well and badly, on two hosts.

Each call is a client of its own; what it did is read by the command line of the other host. It needs npm and its
registry, so it is no part of `make test`.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fleettrio.local.frame import unframe
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import COMMAND, Host
from fleettrio.testing.waiting import wait_until
from tests.surfaces.workers import coder

INSPECTOR = "@modelcontextprotocol/inspector@0.15.0"
"""The latest that runs on Node 20."""


class Inspector:
    """Calls tools as one agent."""

    def __init__(self, program: Path, host: Host, token: str) -> None:
        self._program = program
        self.host, self.token = host, token
        self._env = {**host.env, "FLEETTRIO_TOKEN": token}

    def begin(self, method: str, *more: str, names: bool = False) -> subprocess.Popen[bytes]:
        own = ["--names=seed4"] if names else []
        command = [str(self._program), "--cli", *COMMAND, "mcp", *own, "--method", method, *more]
        return subprocess.Popen(command, env=self._env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)

    def start(self, tool: str, **arguments: object) -> subprocess.Popen[bytes]:
        told = [word for name, value in arguments.items() for word in ("--tool-arg", f"{name}={_told(value)}")]
        names = tool in ("msg_send", "inbox_read", "inbox_ack", "session_wake")
        return self.begin("tools/call", "--tool-name", tool, *told, names=names)

    def good(self, tool: str, **arguments: object) -> dict[str, Any]:
        return facts(self.start(tool, **arguments), tool)

    def bad(self, tool: str, said: str, **arguments: object) -> None:
        result = _result(self.start(tool, **arguments))
        assert result["isError"], (tool, result)
        assert said in result["content"][0]["text"], (tool, result)
        print(f"  {tool}: refused, {result['content'][0]['text'].splitlines()[0]}")


def facts(running: subprocess.Popen[bytes], tool: str) -> dict[str, Any]:
    """What a good call came to."""
    result = _result(running)
    assert not result.get("isError"), (tool, result)
    print(f"  {tool}: done")
    found = result["structuredContent"]
    assert isinstance(found, dict)
    return found


def _result(running: subprocess.Popen[bytes]) -> dict[str, Any]:
    out, _ = running.communicate(timeout=120)
    result = json.loads(out)
    assert isinstance(result, dict)
    return result


def _told(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def messages(lead: Inspector, worker: Inspector, beta: Host, token: str) -> None:
    sent = lead.good("fleet_send", to=["worker@beta"], text="see issue 7")["sent"][0]
    taken = beta.ok("inbox", "--take", "--wait", "50", "--json", token=token).json()["messages"]
    assert [(m["short"], m["text"]) for m in taken] == [(sent["id"], "see issue 7")]
    lead.bad("fleet_send", "no agent", to="wroker@beta", text="hello")
    worker.good("fleet_reply", id=sent["id"], text="seen it")
    answer = lead.good("fleet_poll", wait_s=50)["messages"][0]
    assert "seen it" in answer["text"]
    lead.bad("fleet_poll", "at most 50", wait_s=500)
    worker.bad("fleet_reply", "no message", id="ffffffff", text="what?")
    assert lead.good("fleet_trace", id=sent["id"])["messages"]
    lead.bad("fleet_trace", "ffffffff", id="ffffffff")
    worker.bad("fleet_broadcast", "worker", text="hear me")
    lead.good("fleet_broadcast", text="main is frozen", group="crew")
    taken = beta.ok("inbox", "--take", "--wait", "50", "--json", token=token).json()["messages"]
    assert [m["text"] for m in taken] == ["main is frozen"]


def questions(lead: Inspector, beta: Host, token: str) -> None:
    lead.bad("fleet_ask", "", to="worker@beta", text="is anybody there?")
    listening = beta.popen("inbox", "--take", "--wait", "40", "--json", token=token)
    asking = lead.start("fleet_ask", to="worker@beta", text="main or next?", wait_s=40)
    out, _ = listening.communicate(timeout=60)
    (question,) = json.loads(out)["messages"]
    beta.cli("answer", question["short"], "next", token=token)  # a client that ends at once confirms nothing: exit 5
    assert "next" in facts(asking, "fleet_ask")["messages"][0]["text"]
    lead.host.ok("inbox", "--take", token=lead.token)  # what its clients polled and did not confirm
    listening = lead.start("fleet_poll", wait_s=40)
    asking = wait_until("the lead listens", functools.partial(_asked, beta, token))
    question = facts(listening, "fleet_poll")["messages"][0]
    lead.good("fleet_answer", id=question["id"], text="yes")
    assert unframe(asking.communicate(timeout=60)[0].decode()) == "yes"
    lead.bad("fleet_answer", "ffffffff", id="ffffffff", text="yes")


def _asked(beta: Host, token: str) -> subprocess.Popen[bytes] | None:
    """A question to the lead that waits for its answer; None when the lead was not there for it."""
    running: subprocess.Popen[bytes] = beta.popen("ask", "lead@alpha", "may I?", token=token)
    try:
        running.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        return running
    return None


def work(lead: Inspector, worker: Inspector, beta: Host) -> None:
    lead.good("claim", key="beta:issue-149")
    worker.bad("claim", "held by lead@alpha", key="issue-149")
    assert "lead@alpha" in beta.ok("claim", "--list").text
    lead.good("claim", key="beta:issue-149", release=True)
    lead.bad("claim", "gamma", key="gamma:a")
    started = lead.good("fleet_spawn", profile="coder", host="alpha", name="c1", brief="count to three")
    assert started["sent"][0]["state"] == "ready"
    wait_until("beta hears of it", lambda: beta.agent("c1@alpha"))
    lead.bad("fleet_spawn", "codr", profile="codr", host="alpha")
    lead.bad("fleet_stop", "nobody", target="nobody@alpha")
    assert lead.good("fleet_stop", target="c1@alpha")["sent"][0]["state"] == "done"


def other_names(lead: Inspector, worker: Inspector) -> None:
    lead.good("msg_send", to="worker@beta", body="mind the gap", kind="warning")
    assert "mind the gap" in worker.good("inbox_read", wait_s=50)["messages"][0]["text"]
    assert worker.good("session_wake")["unread"] == 1
    worker.good("inbox_ack")
    lead.bad("msg_send", "not sent", to="worker@beta", body="thanks", kind="ack")
    worker.bad("inbox_read", "at most 200", limit=1000)
    lead.bad("fleet_sned", "did you mean fleet_send")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ft-") as name:
        folder = Path(name)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", folder, INSPECTOR], check=True)
        program = folder / "node_modules" / ".bin" / "mcp-inspector"
        more = coder(folder)
        with BrokerNode(folder / "broker") as broker, Fleet(broker, "alpha", "beta", more=more) as fleet:
            run(program, fleet)
    return 0


def run(program: Path, fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    leads = alpha.ok("attach", "--name", "lead", "--role", "lead", "--json").json()["token"]
    own = ("--name", "worker", "--role", "worker", "--group", "crew")
    workers = beta.ok("attach", *own, "--json").json()["token"]
    wait_until("alpha hears of the worker", lambda: alpha.agent("worker@beta"))
    wait_until("beta hears of the lead", lambda: beta.agent("lead@alpha"))
    lead, worker = Inspector(program, alpha, leads), Inspector(program, beta, workers)
    out, _ = lead.begin("tools/list").communicate(timeout=60)
    print("listed:", ", ".join(tool["name"] for tool in json.loads(out)["tools"]))
    assert lead.good("fleet_list")["you"] == "lead@alpha"
    messages(lead, worker, beta, workers)
    questions(lead, beta, workers)
    work(lead, worker, beta)
    other_names(lead, worker)


if __name__ == "__main__":
    sys.exit(main())
