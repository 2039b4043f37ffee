"""What several stories do, and how long they wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fleettrio.demo.hosts import Host
from fleettrio.demo.lead import Brief, Lead, StoryFailed
from fleettrio.demo.stage import WORKER, Stage
from fleettrio.ids import Gid

__all__ = (
    "ANSWERS_S",
    "HEARD_S",
    "TURN_S",
    "Story",
    "agent",
    "all_answered",
    "gid_of",
    "ids",
    "same",
    "say_answered",
)

HEARD_S = 90.0
TURN_S = 120.0
ANSWERS_S = 180.0

Story = Callable[[Lead], None]


def agent(host: Host, address: str, status: str = "") -> dict[str, Any] | None:
    """What a host knows of an agent, if it is in this state."""
    agents = host.call("list", "--json").json()["agents"]
    found = (agent for agent in agents if agent["address"] == address and status in ("", agent["status"]))
    return next(found, None)


def gid_of(host: Host, address: str) -> Gid:
    """Raises `StoryFailed` when the host does not know it."""
    found = agent(host, address)
    if found is None:
        raise StoryFailed(f"{host.name} does not know {address}")
    return Gid(found["gid"])


def same(what: str, got: object, wanted: object) -> None:
    """Raises `StoryFailed` unless it is what was promised."""
    if got != wanted:
        raise StoryFailed(f"{what}: {got}, should be {wanted}")


def all_answered(lead: Lead, briefs: Sequence[Brief]) -> None:
    """Fetch the answers and compare each; no message was a turn twice."""
    answers = lead.collect(briefs, ANSWERS_S)
    for brief in briefs:
        say_answered(lead, brief, lead.check(brief, answers[brief.msg_id]))
    lead.stage.narrator.passed(f"{lead.check_once()} turns of {WORKER} so far, each a different message")


def say_answered(lead: Lead, brief: Brief, number: int) -> None:
    narrator = lead.stage.narrator
    mark = narrator.id(brief.short)
    narrator.passed(f"{mark}  {brief.name}: {len(brief.body)} bytes, same SHA-256 on both sides, number {number}")


def ids(stage: Stage, briefs: Sequence[Brief]) -> str:
    return " ".join(stage.narrator.id(brief.short) for brief in briefs)
