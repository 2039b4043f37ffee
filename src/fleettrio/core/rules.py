"""How a fact reaches the part that knows what to do about it.

Each part of the core has a table: what it has a rule for, and the rule. The gateway joins the tables; a fact or a timer
with two rules, or none, is a mistake that is found when the gateway is made, or when it first happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from fleettrio.core.actions import Action
from fleettrio.ids import Now

__all__ = ("Event", "Rule", "Rules", "TimerRule", "TimerRules", "join")


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that happened, in the past tense: a frozen value without behaviour."""


K = TypeVar("K")
V = TypeVar("V")

Rule = Callable[[Any, Now], list[Action]]
"""What is to be done about an event of one type."""
Rules = Mapping[type[Event], Rule]
TimerRule = Callable[[tuple[str, ...], Now], list[Action]]
"""What is to be done when a timer is due; it gets the timer's name without its first word."""
TimerRules = Mapping[str, TimerRule]


def join(*tables: Mapping[K, V]) -> dict[K, V]:
    """One table of all; raises `ValueError` when two have the same entry."""
    joined: dict[K, V] = {}
    for table in tables:
        if twice := joined.keys() & table.keys():
            raise ValueError(f"two rules for {', '.join(map(str, twice))}")
        joined.update(table)
    return joined
