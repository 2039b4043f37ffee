"""What the broker could not deliver: the sender hears why, and a person looks at it."""

from __future__ import annotations

from typing import Any

from fleettrio.demo.lead import Lead, StoryFailed
from fleettrio.demo.stage import LEAD
from fleettrio.demo.stories.parts import HEARD_S, TURN_S, agent, gid_of, same

__all__ = ("dead_letter",)

_CLERK = "clerk@beta"


def dead_letter(lead: Lead) -> None:
    """A dead letter: it expires on its queue, the lead is told once, a person finds it and throws it away"""
    stage = lead.stage
    stage.beta.call("attach", "--name", "clerk", "--takes", "pull")
    stage.narrator.until(f"alpha sees {_CLERK}", lambda: _has_inbox(lead), HEARD_S)
    stage.let_expire(gid_of(stage.alpha, _CLERK))
    stage.beta.stop()
    stage.narrator.say(f"beta is switched off; by a policy of the broker nothing waits long for {_CLERK}")
    brief = lead.send("a brief that nobody fetches", b"The minutes of today, please.\n", _CLERK)
    stage.narrator.say(f"{LEAD} sent {stage.narrator.id(brief.short)}")
    view = stage.narrator.until(f"{LEAD} is told", lambda: _ended(lead, brief.msg_id), TURN_S)
    same("its end", (view["state"], view["reason"]), ("expired", "expired"))
    stage.narrator.passed(f"{LEAD} is told: {view['sentence']}")
    letter = stage.narrator.until("it is among the dead letters", lambda: _letter(lead, brief.msg_id), HEARD_S)
    told = stage.alpha.call("trace", brief.trace_id, "--local", "--json").json()["journal"]
    same("how often that was told", [line["what"] for line in told].count("dead-letter"), 1)
    stage.narrator.passed(
        f"`fleettrio dlq list` at alpha, the reporter: {letter['short']}, {letter['reason']}, told once"
    )
    stage.alpha.call("dlq", "drop", letter["short"])
    if _letter(lead, brief.msg_id):
        raise StoryFailed("it was thrown away and is still there")
    stage.narrator.passed("a person threw it away")


def _has_inbox(lead: Lead) -> bool:
    """The clerk's queue is at the broker, and alpha knows the clerk."""
    there = agent(lead.stage.beta, _CLERK)
    return there is not None and there["inbox"] == "open" and agent(lead.stage.alpha, _CLERK) is not None


def _ended(lead: Lead, msg_id: str) -> dict[str, Any] | None:
    view = lead.show(msg_id)
    return view if view["state"] not in ("waiting", "accepted", "written", "confirmed") else None


def _letter(lead: Lead, msg_id: str) -> dict[str, Any] | None:
    letters: list[dict[str, Any]] = lead.stage.alpha.call("dlq", "list", "--json").json()["letters"]
    return next((letter for letter in letters if letter["msg_id"] == msg_id), None)
