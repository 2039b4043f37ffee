"""`doctor --probe HARNESS`: one marked message on the very way that all take, and what came of it, said honestly.

There are three outcomes. *Seen*: its agent's hook gave the mark back, or a turn was seen to begin with it. *Not known*:
it was put in, and nobody saw what became of it. *Not delivered*: it still waited at the end of the time; it was called
back, and the reason is said.
"""

from __future__ import annotations

import os
import secrets
import time

import click
import msgspec

from fleettrio.api.moments import means
from fleettrio.api.schema import (
    AgentView,
    Cancel,
    Empty,
    MessageView,
    Send,
    SendResult,
    Show,
    Shown,
    Status,
    Wait,
    Waited,
)
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.person import require_person
from fleettrio.clients.cli.table import print_json, say
from fleettrio.clients.client import Client
from fleettrio.clients.setup.plans import HARNESSES
from fleettrio.errors import FAILED, UNKNOWN
from fleettrio.home import resolve_paths

__all__ = ("probe",)

_STEP_S = 20.0
_ABSENT = ("away", "stopping", "gone", "starting")


class Probed(msgspec.Struct):
    """`outcome` is `seen`, `not-known`, `not-delivered`, or `no-agent`."""

    harness: str
    outcome: str
    detail: str
    agent: str = ""
    id: str = ""
    via: str = ""
    seconds: float = 0.0


def probe(harness: str, *, limit_s: float, as_json: bool) -> int:
    """Send it to an agent of this host that runs in `harness`; the exit code: 0 seen, 5 not known, 3 the rest.

    Raises `UsageError` for a harness that is neither one of ours nor any agent's here.
    """
    require_person(resolve_paths(os.environ))
    with connect() as client:
        found = _probe(client, harness, limit_s)
    if as_json:
        print_json(found)
    else:
        say(f"{harness}  {found.outcome.replace('-', ' ')}: {found.detail}")
    return {"seen": 0, "not-known": UNKNOWN}.get(found.outcome, FAILED)


def _probe(client: Client, harness: str, limit_s: float) -> Probed:
    status: Status = client.call("status", Empty())
    here = [agent for agent in status.fleet.agents if agent.host == client.welcome.host]
    known = sorted({*HARNESSES, *(agent.harness for agent in here if agent.harness)})
    if harness not in known:
        raise click.UsageError(f"no harness {harness!r} is known here: {', '.join(known)}", click.get_current_context())
    agent = _choose(here, harness)
    if agent is None:
        hint = f"no agent in {harness} is here: start one with `fleettrio {harness}`, and try again"
        return Probed(harness, "no-agent", hint)
    mark = secrets.token_hex(4)
    body = f"This only tests the way to you (mark {mark}). There is nothing to do, and nothing to answer."
    began = time.monotonic()
    send = Send(to=[agent.address], body=body.encode(), wants_reply=False, expires_s=min(2 * limit_s + 60, 86_400))
    sent: SendResult = client.call("send", send)
    msg_id = sent.messages[0].msg_id
    message = _wait(client, msg_id, limit_s)
    seconds = round(time.monotonic() - began, 1)
    outcome, detail = _judge(message, agent)
    if outcome == "not-delivered":
        client.call("cancel", Cancel(msg_id))
    return Probed(harness, outcome, detail, agent.name, message.short, message.via, seconds)


def _choose(here: list[AgentView], harness: str) -> AgentView | None:
    """An idle one if there is one."""
    able = [agent for agent in here if agent.harness == harness and agent.status not in _ABSENT]
    return min(able, key=lambda agent: agent.status != "idle", default=None)


def _wait(client: Client, msg_id: str, limit_s: float) -> MessageView:
    deadline = time.monotonic() + limit_s
    while (left := deadline - time.monotonic()) > 0:
        waited: Waited = client.call("wait", Wait([msg_id], "delivered", min(left, _STEP_S)))
        if waited.done:
            break
    shown: Shown = client.call("show", Show(msg_id))
    return next((one for one in shown.messages if one.direction == "out"), shown.messages[0])


def _judge(message: MessageView, agent: AgentView) -> tuple[str, str]:
    if message.state in ("injected", "answered"):
        return "seen", f"{agent.name} took it ({means(message.via)})"
    if message.state == "unconfirmed":
        return "not-known", f"it was put into {agent.name} ({means(message.via)}), and nobody saw that it became a turn"
    return "not-delivered", f"{message.sentence}; it was called back"
