"""The tools about agents and their work: who is there, what happened, start and end, who works on what."""

from __future__ import annotations

from typing import Any

from fleettrio.api.mcp import arguments as args
from fleettrio.api.mcp.call import Call, Refusal, Said
from fleettrio.api.mcp.talk import wait_for
from fleettrio.api.mcp.words import failed, report, sent_facts
from fleettrio.api.schema import AgentView, Fleet, HostView, MessageView, Ordered, Traced
from fleettrio.api.schema.claims import Claimed
from fleettrio.local.sanitise import one_line

__all__ = ("claim", "list_fleet", "spawn", "stop", "trace")

MOST_TRACED = 50


async def list_fleet(call: Call, _said: args.ListArgs) -> Said:
    fleet: Fleet = await call.ask("list")
    agents = [_agent(view) for view in fleet.agents]
    hosts = [_host(view) for view in fleet.hosts]
    facts: dict[str, Any] = {"you": f"{call.caller.name}@{fleet.host}", "agents": agents, "hosts": hosts}
    if fleet.coordination is not None:
        facts["leads"] = fleet.coordination.others
    lines = [f"you are {facts['you']}", *(_line(fact) for fact in agents), *(_line(fact) for fact in hosts)]
    return Said(facts, "\n".join(lines))


def _agent(view: AgentView) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": view.address, "status": view.status}
    more = {"role": view.role, "groups": view.groups, "waiting": view.waiting, "paused": view.paused}
    return {**facts, **{key: value for key, value in more.items() if value}}


def _host(view: HostView) -> dict[str, Any]:
    return {"host": view.host, "status": view.status, **({"profiles": view.profiles} if view.profiles else {})}


def _line(fact: dict[str, Any]) -> str:
    first, *rest = fact.values()
    words = (", ".join(str(word) for word in value) if isinstance(value, list) else str(value) for value in rest)
    return f"{first}: {' · '.join(words)}"


async def trace(call: Call, said: args.TraceArgs) -> Said:
    traced: Traced = await call.ask("trace", id=said.id, local=False)
    messages = [_step(view) for view in _each_once(traced.messages)][:MOST_TRACED]
    facts: dict[str, Any] = {"trace": traced.trace_id, "messages": messages}
    if traced.others:
        facts["between_others"] = traced.others
    if traced.silent:
        facts["no_word_from"] = traced.silent
    lines = [f"{m['id']} {m['kind']} {m['from']} to {m['to']}: {m['state']}, {m['says']}" for m in messages]
    return Said(facts, "\n".join(lines) or "nothing of it is known")


def _each_once(views: list[MessageView]) -> list[MessageView]:
    """A message as its sender knows it where that is known, else as its recipient does."""
    found: dict[tuple[str, str], MessageView] = {}
    for view in views:
        known = found.get((view.msg_id, view.gid))
        if known is None or (known.direction == "in" and view.direction == "out"):
            found[view.msg_id, view.gid] = view
    return list(found.values())


def _step(view: MessageView) -> dict[str, Any]:
    (sent,) = sent_facts([view])
    return {"id": view.short, "kind": view.kind.lower(), "from": view.sender, **sent}


async def spawn(call: Call, said: args.SpawnArgs) -> Said:
    ordered: Ordered = await call.ask(
        "spawn",
        profile=said.profile,
        host=said.host,
        name=said.name,
        cwd=said.cwd,
        worktree=said.worktree,
        groups=said.groups,
        brief=said.brief.encode() if said.brief else None,
    )
    result = await _followed(call, ordered, said.wait_s)
    if not ordered.brief or result.is_error:
        return result
    return Said({**result.facts, "brief": ordered.brief[-8:]}, f"{result.text}\nits brief is {ordered.brief[-8:]}")


async def stop(call: Call, said: args.StopArgs) -> Said:
    ordered: Ordered = await call.ask("stop", target=said.target, reason=said.reason)
    return await _followed(call, ordered, said.wait_s)


async def _followed(call: Call, ordered: Ordered, wait_s: float) -> Said:
    """What came of it; whoever ends itself is nobody afterwards, and waits for nothing."""
    if not wait_s or failed([ordered.message]) or ordered.gid == ordered.message.sender_gid:
        return report([ordered.message])
    return await wait_for(call, [ordered.message.msg_id], "delivered", wait_s)


async def claim(call: Call, said: args.ClaimArgs) -> Said:
    if said.release and said.lapsed:
        raise Refusal("usage", "release and lapsed do not go together", "claim first, release when you are done")
    if said.release:
        done = await call.ask("release", key=said.key)
        return Said({"key": said.key, "released": True}, one_line(done.detail, 400))
    held: Claimed = await call.ask("claim", key=said.key, lapsed=said.lapsed)
    facts = {"key": held.key, "yours": held.granted, "holder": held.holder, "fence": held.fence, "host": held.arbiter}
    if held.granted:
        return Said(facts, f"{held.key} is yours (fence {held.fence}, decided by {held.arbiter})")
    more = ", and was not seen for 10 minutes: claim with lapsed takes it" if held.lapsed else ""
    return Said({**facts, "lapsed": held.lapsed}, f"{held.key} is held by {held.holder}{more}", is_error=True)
