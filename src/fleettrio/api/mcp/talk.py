"""The tools that move messages."""

from __future__ import annotations

from typing import Any

from fleettrio.api.mcp import arguments as args
from fleettrio.api.mcp.call import Call, Said
from fleettrio.api.mcp.hints import in_tools
from fleettrio.api.mcp.words import AGAIN, NOT_DELIVERED, failed, given, nothing_yet, report, sent_facts
from fleettrio.api.schema import Pulled, Waited

__all__ = ("answer", "ask", "broadcast", "names", "poll", "reply", "send", "take", "wait_for")


async def send(call: Call, said: args.SendArgs) -> Said:
    body, expires_s = said.text.encode(), said.expires_s or None
    if said.coord:
        result = await call.ask("coord", coord_id=said.coord, body=body, expires_s=expires_s)
    else:
        result = await call.ask(
            "send",
            to=names(said.to),
            body=body,
            when=said.when,
            expires_s=expires_s,
            wants_reply=None if said.wants_reply else False,
            claim=said.claim,
            cwd=call.cwd,
            paths=said.paths,
            supersedes=said.supersedes,
            remind_s=said.remind_s,
        )
    if said.wait == "no" or not said.wait_s or failed(result.messages):
        return report(result.messages)
    return await wait_for(call, sorted({view.msg_id for view in result.messages}), said.wait, said.wait_s)


def names(to: str | list[str]) -> list[str]:
    """Several as a list, as `a, b`, or as a list in a text, which is how some clients give one."""
    if isinstance(to, list):
        return to
    return [name for part in to.strip("[] ").split(",") if (name := part.strip("\"' "))]


async def wait_for(call: Call, ids: list[str], until: str, wait_s: float) -> Said:
    """Stay for the answers to, or the receipts of, messages of the caller."""
    waited = Waited(False, [], [], 0)

    async def look(limit_s: float) -> bool:
        nonlocal waited
        waited = await call.ask("wait", ids=ids, until=until, limit_s=limit_s)
        return waited.done or bool(waited.questions)

    await call.patiently(wait_s, look)
    return await waited_said(call, waited, until)


async def waited_said(call: Call, waited: Waited, until: str = "answer") -> Said:
    """What a wait brought: answers, or questions that go before, or nothing yet."""
    sent: dict[str, Any] = {"sent": sent_facts(waited.messages)}
    is_open = [view.short for view in waited.messages if not (view.answered_by or view.exit_code or view.is_head)]
    ids = ", ".join(sorted(set(is_open)))
    how = f"fleet_poll with re: {ids}" if until == "answer" else f"fleet_trace with id: {ids}"
    if waited.answers or waited.questions:
        more = {**sent, "next": f"more may come: {how}"} if is_open else sent
        return await given(call, [*waited.answers, *waited.questions], waited.cursor, more)
    return report(waited.messages) if waited.done else nothing_yet(sent, f"{AGAIN}: {how}")


async def poll(call: Call, said: args.PollArgs) -> Said:
    if said.re:
        return await wait_for(call, said.re, "answer", said.wait_s)
    return await take(call, sender=said.sender, limit=said.limit, wait_s=said.wait_s)


async def take(call: Call, *, sender: str, limit: int, wait_s: float) -> Said:
    """What waits for the caller, else what comes within `wait_s`."""
    pulled, failed_before = Pulled([], 0), list[str]()

    async def look(limit_s: float) -> bool:
        nonlocal pulled
        pulled = await call.ask("pull", sender=sender, limit=limit, wait_s=limit_s)
        failed_before.extend(map(in_tools, pulled.failed))
        return bool(pulled.messages or failed_before)

    await call.patiently(wait_s, look)
    more = {NOT_DELIVERED: failed_before} if failed_before else {}
    if not pulled.messages:
        return nothing_yet({"messages": [], **more})
    return await given(call, pulled.messages, pulled.cursor, more)


async def reply(call: Call, said: args.ReplyArgs) -> Said:
    result = await call.ask("reply", re=said.id, body=said.text.encode())
    return report(result.messages)


async def ask(call: Call, said: args.AskArgs) -> Said:
    """The question goes out and is waited for; the rest of the waiting is fleet_poll's."""
    waited: Waited = await call.ask("ask", to=said.to, body=said.text.encode(), timeout_s=said.timeout_s, limit_s=0.0)
    if waited.done or failed(waited.messages):
        return await waited_said(call, waited)
    return await wait_for(call, [waited.messages[0].msg_id], "answer", said.wait_s)


async def answer(call: Call, said: args.AnswerArgs) -> Said:
    result = await call.ask("answer", id=said.id, body=said.text.encode())
    return report(result.messages)


async def broadcast(call: Call, said: args.BroadcastArgs) -> Said:
    result = await call.ask(
        "broadcast",
        group=said.group,
        body=said.text.encode(),
        when=said.when,
        expires_s=said.expires_s or None,
        wants_reply=said.wants_reply,
    )
    return report(result.messages)
