"""What is known of an agent's session while it lives: learnt from its hooks, and learnt anew after a restart."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from fleettrio.api.callers import Process
from fleettrio.ids import Gid

__all__ = ("Live", "Lives", "session_file")


@dataclasses.dataclass(slots=True)
class Live:
    """One session of one agent."""

    session: str = ""
    turn: str = ""
    in_turn: bool | None = None
    """None: no hook has said yet."""
    went_on: int = 0
    """How often its turn went on for us since a prompt."""
    typed_next: bool = False
    """A person's prompt is queued behind this turn."""
    transcript: str = ""
    has_transcript: bool = False
    """It can be read, and tells what went into the model."""
    put_in: set[str] = dataclasses.field(default_factory=set)
    """Nonces that the next hook of this turn is evidence for."""


class Lives:
    """The sessions that hooks have told of, by their agent: at most as many as there are agents."""

    def __init__(self) -> None:
        self._live: dict[Gid, Live] = {}

    def of(self, gid: Gid, session: str) -> Live:
        """A new one when the session is another one than before."""
        live = self._live.get(gid)
        if live is None or (session and live.session != session):
            live = self._live[gid] = Live(session)
        return live


def session_file(transcript: str, pids: tuple[int, ...], ancestors: tuple[Process, ...]) -> Path | None:
    """Where Claude Code keeps the state of the session whose transcript is `transcript`. Looks, so may block.

    Its folder is beside the transcripts'; it is named by the program's process: one of `pids`, or an ancestor.
    """
    path = Path(transcript)
    if not path.is_absolute() or len(path.parents) < 3 or path.parents[1].name != "projects":
        return None
    folder = path.parents[2] / "sessions"
    for pid in (*pids, *(process.pid for process in ancestors)):
        file = folder / f"{pid}.json"
        if pid > 1 and file.is_file():
            return file
    return None
