"""What one round of a hop came to, ours or a peer's; and CPU seconds as the system counts them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

__all__ = ("TICK_S", "Hop", "cpu_s")

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True, slots=True)
class Hop:
    """`seconds` from the first send to the last message taken; CPU seconds of all that took part in between.

    `sending_s` and `receiving_s` are those of the two daemons, or of a peer's two programs; `programs_s` those of what
    fed the daemons and counted behind them.
    """

    count: int
    seconds: float
    sending_s: float
    receiving_s: float
    broker_s: float
    programs_s: float = 0.0
    waits: Sequence[float] = ()
    """Seconds of each message from the sender's socket to the reader's; a peer does not tell."""

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    @property
    def sending_us(self) -> float:
        return 1e6 * self.sending_s / self.count

    @property
    def receiving_us(self) -> float:
        return 1e6 * self.receiving_s / self.count

    @property
    def broker_us(self) -> float:
        return 1e6 * self.broker_s / self.count

    @property
    def programs_us(self) -> float:
        return 1e6 * self.programs_s / self.count


def cpu_s(pid: int) -> float:
    """CPU seconds of a process with all its threads, to a hundredth."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S
