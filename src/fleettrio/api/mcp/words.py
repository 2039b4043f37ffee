"""How results look to a model: few facts, and everything that a peer wrote cleaned and framed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fleettrio.api.mcp.call import Call, Said
from fleettrio.api.mcp.hints import in_tools
from fleettrio.api.schema import InboxMessage, MessageView
from fleettrio.ids import Gid, MsgId, short_id
from fleettrio.local.sanitise import one_line
from fleettrio.tasks.framing import framed
from fleettrio.wire.envelope import Kind

__all__ = ("AGAIN", "NOT_DELIVERED", "failed", "given", "nothing_yet", "report", "sent_facts")

AGAIN = "nothing yet, call again"
NOT_DELIVERED = "not_delivered"
"""What failed of the caller's own messages; it stands first in the text."""
ROOM = 60_000
"""Characters of all messages of one result: harnesses put aside, or cut, what is much longer."""
LEAST = 1_000
"""Of them for each message, however many there are."""


async def given(call: Call, messages: Sequence[InboxMessage], cursor: int, more: dict[str, Any] | None = None) -> Said:
    """Messages handed to the caller, which its next call confirms."""
    call.offered(cursor)
    listed = await _listed(call, messages)
    facts = {"messages": listed, **({"cursor": cursor} if cursor else {}), **(more or {})}
    asked = [message.short for message in messages if message.kind == Kind.ASK]
    if asked:
        facts["next"] = f"somebody waits: answer with fleet_answer, id {asked[0]}; then go on"
    return Said(facts, "\n\n".join([*_vain(facts), *(m["text"] for m in listed), *_lines(facts)]))


async def _listed(call: Call, messages: Sequence[InboxMessage]) -> list[dict[str, Any]]:
    """Each with its frame, cut where all of them together are too much for one result."""
    performer, room = call.house.performer, ROOM
    rows = await performer.store.known([(MsgId(message.msg_id), Gid(message.gid)) for message in messages])
    listed = []
    for number, (message, row) in enumerate(zip(messages, rows, strict=True), 1):
        assert row is not None, "what was handed out is in the store"
        facts: dict[str, Any] = {"id": message.short, "from": message.sender, "kind": message.kind.lower()}
        if message.re:
            facts["re"] = short_id(MsgId(message.re))
        if message.repeat:
            facts["repeat"] = True
        text = (await framed(row, performer, room - LEAST * (len(messages) - number), by_tool=True)).framed
        room -= len(text)
        listed.append({**facts, "text": text})
    return listed


def nothing_yet(more: dict[str, Any] | None = None, how: str = "") -> Said:
    """The end of a wait without a result."""
    facts = {**(more or {}), "next": how or AGAIN}
    return Said(facts, "\n".join([*_vain(facts), *_lines(facts)]))


def sent_facts(views: Iterable[MessageView]) -> list[dict[str, Any]]:
    """What became of messages so far."""
    return [
        {"id": view.short, "to": view.recipient, "state": view.state, "says": in_tools(one_line(view.sentence, 400))}
        for view in views
    ]


def report(views: Sequence[MessageView]) -> Said:
    """What was sent, as far as it is known; an error when nothing of it went anywhere."""
    facts = {"sent": sent_facts(views)}
    return Said(facts, "\n".join(_lines(facts)), is_error=failed(views))


def failed(views: Sequence[MessageView]) -> bool:
    """Nothing of it went anywhere."""
    return bool(views) and all(view.exit_code for view in views)


def _vain(facts: dict[str, Any]) -> list[str]:
    return [f"not delivered: {line}" for line in facts.get(NOT_DELIVERED, ())]


def _lines(facts: dict[str, Any]) -> list[str]:
    sent = [f"{fact['id']} to {fact['to']}: {fact['state']}, {fact['says']}" for fact in facts.get("sent", ())]
    return [*sent, *([facts["next"]] if "next" in facts else [])]
