"""Messages that belong together: one to everybody, and everything that came of one over all hosts."""

from __future__ import annotations

from typing import Any

from fleettrio.demo.lead import Lead, StoryFailed
from fleettrio.demo.stage import CODER, LEAD, WORKER
from fleettrio.demo.stories.parts import HEARD_S, TURN_S, same, say_answered

__all__ = ("broadcast", "claimed", "traced")


def broadcast(lead: Lead) -> None:
    """Broadcast: one message to every agent, and what became of it, counted"""
    stage = lead.stage
    sentence, briefs = lead.broadcast("to everybody", b"Who is there? Count me.\n", (WORKER, CODER), TURN_S)
    same("who was meant", sorted(brief.to for brief in briefs), sorted([WORKER, CODER]))
    stage.narrator.passed(f"{stage.narrator.id(briefs[0].short)} from {LEAD} to everybody: {sentence}")
    for brief in briefs:
        say_answered(lead, brief, lead.check(brief, lead.answer_of(brief)))


def claimed(lead: Lead) -> None:
    """Claims: two agents on two hosts want the same task, one host decides, one of them gets it"""
    stage = lead.stage
    lead.call("claim", "beta:issue-149")
    stage.narrator.say(f"{LEAD} claimed beta:issue-149, and beta decides about it")
    second = stage.beta.cli("claim", "beta:issue-149")
    if second.code != 3 or LEAD not in second.err:
        raise StoryFailed(f"the person at beta got exit {second.code}: {second.err}")
    stage.narrator.passed(f"the person at beta was told: {second.err.splitlines()[0].removeprefix('error: ')}")
    lead.call("release", "beta:issue-149")
    again = stage.beta.call("claim", "beta:issue-149", "--json").json()
    same("the count of its grants", again["fence"], 2)
    stage.narrator.passed("released, and given to the next one with a higher fence")
    stage.beta.call("release", "beta:issue-149")


def traced(lead: Lead) -> None:
    """Trace: one flow over both hosts, seen from beta, causes before effects"""
    stage = lead.stage
    brief, answer = lead.ask("a brief to be followed", b"Follow me, please.\n", TURN_S)
    number = lead.check(brief, answer)
    lines = stage.narrator.until("all of it is in the trace", lambda: _whole(lead, brief.trace_id), HEARD_S)
    own = [line for line in lines if line["msg_id"] == brief.msg_id]
    steps = [(line["host"], line["what"]) for line in own]
    wanted = [("alpha", "accepted"), ("beta", "waiting"), ("beta", "injected")]
    same("the way of the brief", [step for step in steps if step in wanted], wanted)
    for line in own:
        stage.narrator.say(f"{line['host']:5}  {line['what']}  {line['reason']}".rstrip())
    stage.narrator.passed(f"{len(lines)} steps on {' and '.join(sorted({line['host'] for line in lines}))}, in order")
    say_answered(lead, brief, number)


def _whole(lead: Lead, trace_id: str) -> list[dict[str, Any]] | None:
    """Every step of a trace, as beta tells it after it has asked alpha; None until the answer has arrived, too."""
    told = lead.stage.beta.call("trace", trace_id, "--json").json()
    same("hosts that do not answer", told["silent"], [])
    lines: list[dict[str, Any]] = told["journal"]
    return lines if any(line["host"] == "alpha" and line["what"] == "drained" for line in lines) else None
