"""The stories of the demo, one function each. A story that returns has passed; what it found wrong it raises."""

from __future__ import annotations

from fleettrio.demo.stories.agents import code_moved, spawned, stopped
from fleettrio.demo.stories.asking import asked
from fleettrio.demo.stories.briefs import beta_killed, broker_killed, delegate_and_reply, late_reply
from fleettrio.demo.stories.flows import broadcast, claimed, traced
from fleettrio.demo.stories.letters import dead_letter
from fleettrio.demo.stories.parts import Story
from fleettrio.demo.stories.trust import fleet_file, forged_message, misaddressed_message, roster

__all__ = ("STORIES", "Story")

STORIES: tuple[Story, ...] = (
    fleet_file,
    roster,
    delegate_and_reply,
    asked,
    spawned,
    broadcast,
    claimed,
    code_moved,
    traced,
    stopped,
    forged_message,
    misaddressed_message,
    dead_letter,
    late_reply,
    broker_killed,
    beta_killed,
)
