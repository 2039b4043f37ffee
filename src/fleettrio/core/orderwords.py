"""What an order asks for, as a person would type it: its body is for machines, and its raw bytes are never shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fleettrio.core.roster import Roster
from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import Gid, HostId
from fleettrio.wire.bodies import PauseBody, SpawnBody, StopBody
from fleettrio.wire.envelope import Kind
from fleettrio.wire.gids import is_gid

__all__ = ("ALL", "order_words")

ALL = "all"
"""The target of a pause of everything."""


def order_words(kind: str, body: bytes, roster: Roster) -> str:
    """What is asked for: `spawn coder as w3`. Empty for other kinds, and for what cannot be read."""
    words = _WORDS.get(kind)
    if words is None:
        return ""
    try:
        return words(body, roster)
    except MalformedEnvelope:
        return ""


def _spawn(body: bytes, _roster: Roster) -> str:
    asked = SpawnBody.from_bytes(body)
    return f"spawn {asked.profile}" + (f" as {asked.name}" if asked.name else "")


def _stop(body: bytes, roster: Roster) -> str:
    gid = StopBody.from_bytes(body).gid
    return f"stop {roster.address(gid, HostId(''))}"


def _pause(body: bytes, roster: Roster) -> str:
    asked = PauseBody.from_bytes(body)
    target = roster.address(Gid(asked.target), HostId("")) if is_gid(asked.target) else asked.target
    return f"{'pause' if asked.on else 'resume'} {'--all' if asked.target == ALL else target}"


_WORDS: Mapping[str, Callable[[bytes, Roster], str]] = {
    Kind.SPAWN: _spawn,
    Kind.STOP: _stop,
    Kind.PAUSE: _pause,
}
