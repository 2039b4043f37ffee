"""A question in the middle of the work: live, or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fleettrio.demo.lead import Lead, StoryFailed
from fleettrio.demo.stage import LEAD, WORKER
from fleettrio.demo.stories.parts import HEARD_S, TURN_S, same, say_answered

__all__ = ("asked",)

_QUESTION = "which port does the broker use?"
_ANSWER = "5672; and keep it"


def asked(lead: Lead) -> None:
    """Ask: the worker asks in the middle of its work, and goes on in the same turn with the answer"""
    stage = lead.stage
    unheard = stage.beta.cli("ask", LEAD, "is anybody there?")
    if unheard.code != 3 or "does not listen" not in unheard.err:
        raise StoryFailed(f"a question to somebody who does not listen: exit {unheard.code}, {unheard.err}")
    stage.narrator.passed(f"a question while {LEAD} does not listen ends at once ({unheard.seconds:.1f} s)")
    with ThreadPoolExecutor(max_workers=1) as beside:
        brief = f"Look into the link.\nAsk {LEAD}: {_QUESTION}\n".encode()
        waiting = beside.submit(lead.ask, "a brief with a question in it", brief, TURN_S)
        question = stage.narrator.until(f"{WORKER} asks", lambda: _open_question(lead), HEARD_S)
        stage.narrator.say(f"{LEAD} waits for an answer and is asked {stage.narrator.id(question['short'])} meanwhile")
        lead.call("answer", question["short"], _ANSWER)
        sent, answer = waiting.result()
    number = lead.check(sent, answer)
    heard = stage.worker.find("asked", sent.short)
    same(f"what {WORKER} was answered", heard and heard["answer"], _ANSWER)
    same("how many turns that took", [turn["id"] for turn in stage.worker.events("turn")].count(sent.short), 1)
    stage.narrator.passed(f"the answer came out of the very call that asked: {_ANSWER}")
    say_answered(lead, sent, number)


def _open_question(lead: Lead) -> dict[str, Any] | None:
    """What stands first in the lead's inbox."""
    rows: list[dict[str, Any]] = lead.call("inbox", "--json").json()["messages"]
    return next((row for row in rows if row["kind"] == "ASK"), None)
