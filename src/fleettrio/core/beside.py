"""The person beside the agents: when the last command came from a terminal.

Whoever was away for more than 15 minutes is told, with the first look at the fleet, what happened meanwhile. Being
there is a command from a terminal; what a script does with the operator's token is not, nor what is typed into an
agent.
"""

from __future__ import annotations

from fleettrio.core.actions import Action, RecordSetting
from fleettrio.core.rules import Event, Rules
from fleettrio.ids import Now, WallMs

__all__ = ("SETTING", "Beside", "PersonActed")

SETTING = "person-seen"
RECORD_EVERY_MS = 60_000


class PersonActed(Event, frozen=True):
    """The person at this host gave a command at a terminal."""


class Beside:
    def __init__(self, seen_at: WallMs) -> None:
        self.seen_at = seen_at
        """When the person was last there; 0: never, as far as is known."""
        self._recorded = seen_at
        self.rules: Rules = {PersonActed: self._acted}

    def _acted(self, _: PersonActed, now: Now) -> list[Action]:
        """Recorded once a minute at most: a minute more or less does not matter."""
        self.seen_at = now.wall
        if abs(now.wall - self._recorded) < RECORD_EVERY_MS:
            return []
        self._recorded = now.wall
        return [RecordSetting(SETTING, str(now.wall))]
