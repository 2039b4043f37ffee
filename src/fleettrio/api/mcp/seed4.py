"""The tools under the names of another bus, for agents that were taught those; they confirm the cursor themselves."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fleettrio.api.mcp.arguments import ExpiresS, Text, WaitS, When
from fleettrio.api.mcp.call import Call, Refusal, Said
from fleettrio.api.mcp.talk import take
from fleettrio.api.mcp.words import report
from fleettrio.api.schema import InboxRows
from fleettrio.local.sanitise import one_line

__all__ = (
    "InboxAckArgs",
    "InboxReadArgs",
    "MsgSendArgs",
    "SessionWakeArgs",
    "inbox_ack",
    "inbox_read",
    "msg_send",
    "session_wake",
)

_FIRST = 3


class MsgSendArgs(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    to: str = ""
    body: Text
    kind: Literal["directive", "handoff", "warning", "reply", "ack"] = "directive"
    reply_to: Annotated[str, Meta(description="id of the message answered, for a reply")] = ""
    when: When = "idle"
    expires_s: ExpiresS = 0
    claim: str = ""


class InboxReadArgs(msgspec.Struct, forbid_unknown_fields=True):
    wait_s: WaitS = 0
    limit: Annotated[int, Meta(ge=1, le=200)] = 20


class InboxAckArgs(msgspec.Struct, forbid_unknown_fields=True):
    cursor: Annotated[int, Meta(ge=0, description="of the last result you have; 0: of all")] = 0


class SessionWakeArgs(msgspec.Struct, forbid_unknown_fields=True):
    pass


async def msg_send(call: Call, said: MsgSendArgs) -> Said:
    if said.kind == "ack":
        raise Refusal("usage", "an acknowledgement is not sent: it would wake the other agent", "use inbox_ack")
    if said.kind == "reply":
        result = await call.ask("reply", re=said.reply_to or "@last", body=said.body.encode())
        return report(result.messages)
    result = await call.ask(
        "send",
        to=[said.to] if said.to else [],
        body=said.body.encode(),
        intent=said.kind,
        when=said.when,
        expires_s=said.expires_s or None,
        claim=said.claim,
        cwd=call.cwd,
    )
    return report(result.messages)


async def inbox_read(call: Call, said: InboxReadArgs) -> Said:
    return await take(call, sender="", limit=said.limit, wait_s=said.wait_s)


async def inbox_ack(_call: Call, _said: InboxAckArgs) -> Said:
    """What it confirms was confirmed before it ran, as for every call."""
    return Said({"acked": True}, "they count as read")


async def session_wake(call: Call, _said: SessionWakeArgs) -> Said:
    rows: InboxRows = await call.ask("inbox", limit=_FIRST)
    first = [
        {"id": view.short, "from": view.sender, "begins": one_line(view.preview, 80)} for view in rows.messages[:_FIRST]
    ]
    lines = [f"{rows.total} for you", *(f"{fact['id']} from {fact['from']}: {fact['begins']}" for fact in first)]
    return Said({"unread": rows.total, "first": first}, "\n".join(lines))
