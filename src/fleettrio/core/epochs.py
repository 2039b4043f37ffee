"""The epoch: the number under which this process says that it is alive, and how a copy of this host shows itself.

Rules:
1. An epoch is recorded before anything is said under it, and only grows; `seq` grows with every beat.
2. A host that knows us under a later number refuses our beats and tells us that number (`stale-epoch`): we go on above
   it, at most a day ahead of our clock. Nothing else comes of such a notice.
3. An epoch further ahead than that came from a clock that was wrong. Nobody takes it: we begin anew at the clock.
4. A beat under our own key that we did not send is another machine's. We say so once more, so that it hears us too,
   and end our side of the broker until a person has looked.
"""

from __future__ import annotations

from fleettrio.core.actions import Action, Note, RecordSetting
from fleettrio.core.beginning import Settings
from fleettrio.core.roster import MOST_AHEAD_MS, Roster
from fleettrio.ids import HostId, Now, WallMs

__all__ = ("GOODBYE_S", "SETTING", "Epochs", "number_text", "read_number")

SETTING = "epoch"
GOODBYE_S = 1.0
"""From the last beat to the end of the session, when another machine uses our key."""


class Epochs:
    def __init__(self, settings: Settings, roster: Roster) -> None:
        self._settings = settings
        self._roster = roster
        self.epoch = settings.epoch
        self.seq = 0
        self.copy = ""
        """What was seen of another machine with our key, as a sentence; empty while there is none."""
        self._issued = {settings.epoch}
        self._since = WallMs(0)
        """Of what was said up to then under our key it is not known who did: the process before, as a rule, whose clock
        may have been ahead of ours."""

    def start(self, now: Now) -> list[Action]:
        """The epoch of this process, recorded."""
        self._since = max(now.wall, self._settings.highest_wall)
        return self._ahead(now) or self._go_on(self.epoch, now)

    def next_beat(self, now: Now) -> list[Action]:
        """Count one more beat; what is to be recorded before it is said."""
        self.seq += 1
        return self._ahead(now)

    def refused(self, host: HostId, known: str, now: Now) -> list[Action]:
        """`host` knows us under the number `known` and refuses lower ones. Empty when it changes nothing."""
        number = read_number(known)
        if number is None or number <= (self.epoch, self.seq):
            return []  # it speaks of an old beat of ours that somebody repeated
        if number[0] + 1 > now.wall + MOST_AHEAD_MS:
            return [self._note(host, "too-far", f"{host} knows this host under {known}, more than a day ahead")]
        text = f"{host} knows this host under {known}; it goes on above that"
        return [*self._go_on(number[0] + 1, now), self._note(host, "stale-epoch", text)]

    def heard(self, epoch: int, seq: int, said_at: WallMs) -> list[Action]:
        """A beat under our own key came. Empty when it is ours, or when we have stopped for another one already."""
        is_ours = epoch in self._issued and (epoch != self.epoch or seq <= self.seq)
        if is_ours or self.copy or said_at <= self._since:
            return []
        self.copy = f"another machine uses this host's key (its number is {number_text(epoch, seq)})"
        return [self._note(self._settings.me.host, "clone", self.copy)]

    def accept(self, now: Now) -> list[Action]:
        """A person says that the other machine is gone."""
        self.copy, self._since = "", now.wall
        return self._go_on(max(self.epoch + 1, now.wall), now)

    def _ahead(self, now: Now) -> list[Action]:
        if self.epoch <= now.wall + MOST_AHEAD_MS:
            return []
        text = f"{self.epoch} is from a clock that was ahead; this host begins anew at {now.wall}"
        self._roster.begin(now.wall, now.wall)
        return [*self._go_on(now.wall, now), self._note(self._settings.me.host, "clock", text)]

    def _go_on(self, epoch: int, now: Now) -> list[Action]:
        self.epoch = epoch
        self._issued.add(epoch)
        self._roster.begin(max(epoch, self._roster.rev), now.wall)
        return [RecordSetting(SETTING, str(epoch))]

    def _note(self, host: HostId, reason: str, text: str) -> Note:
        return Note("epoch", None, None, self._settings.trace_id, host, reason, text, alarm=True)


def number_text(epoch: int, seq: int) -> str:
    """Epoch and count of beats in one word, as a refusal tells them."""
    return f"{epoch}/{seq}"


def read_number(text: str) -> tuple[int, int] | None:
    """The number in `text`, None when it is not one. It comes from another host: nothing in it is believed."""
    epoch, _, seq = text.partition("/")
    if not all(part.isascii() and part.isdigit() and len(part) <= 16 for part in (epoch, seq)):
        return None
    return int(epoch), int(seq)
