"""The highest wall time that this host has seen, and the one at which its store was made.

While the clock stands more than 30 s behind it, nobody can say what has expired and what was delivered already: the
forward lane is closed until the clock has caught up, or a person says that it is right. A store that was made under
that clock was made now at the latest: what is older may have been typed before its time (`ledger-lost`).
"""

from __future__ import annotations

from fleettrio.core.actions import Action, RecordSetting
from fleettrio.core.timers import at_wall
from fleettrio.ids import Now, Seconds, WallMs

__all__ = ("BORN", "SETTING", "WallMark")

SETTING = "highest-wall"
BORN = "born"
"""The keys of both in the store's `setting`."""
SLACK_MS = 30_000
RECORD_EVERY_MS = 60_000


class WallMark:
    def __init__(self, highest: WallMs, born: WallMs) -> None:
        self.highest = highest
        self.born = born
        self._recorded = highest

    def saw(self, now: Now) -> list[Action]:
        """Note the time of an event; recorded once a minute, and at the first."""
        self.highest = max(self.highest, now.wall)
        if self.highest < self._recorded + RECORD_EVERY_MS:
            return []
        self._recorded = self.highest
        return [RecordSetting(SETTING, str(self.highest))]

    def is_ahead(self, now: Now) -> bool:
        """True while the clock is too far behind what it showed before."""
        return now.wall < self.highest - SLACK_MS

    def why_closed(self, now: Now) -> str:
        """Why nothing is delivered while the mark is ahead, as a sentence."""
        behind_s = (self.highest - now.wall) // 1000
        return f"this host's clock is {behind_s} s behind what it was: fleettrio doctor --fix clock"

    def caught_up_at(self, now: Now) -> Seconds:
        return at_wall(WallMs(self.highest - SLACK_MS), now)

    def accept(self, now: Now) -> list[Action]:
        """A person says that the clock is right."""
        self.highest = self._recorded = now.wall
        accepted: list[Action] = [RecordSetting(SETTING, str(now.wall))]
        if self.born > now.wall:
            self.born = now.wall
            accepted.append(RecordSetting(BORN, str(now.wall)))
        return accepted
