"""Whether this host starts the agent that a SPAWN asks for: who may, what there is, and whether there is room.

Rules:
1. A requester names a profile, never a command, and needs a grant for that very profile. This host needs none.
2. A profile has so many places. An agent whose program ended leaves its place to another.
3. Agents start agents only so deep; from there on a person has to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from fleettrio.core.compose import Identity
from fleettrio.core.roster import Roster
from fleettrio.core.spawned import Spawnable, SpawnRow
from fleettrio.ids import Gid, HostId
from fleettrio.wire.bodies import SpawnBody
from fleettrio.wire.envelope import Envelope
from fleettrio.wire.gids import is_name

__all__ = ("DEEPEST", "Admission", "no_profile")

DEEPEST = 32
"""Steps from agent to agent after which nobody is started any more without a person."""


class Admission:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        profiles: Mapping[str, Spawnable],
        rows: Mapping[Gid, SpawnRow],
        grants: Callable[[HostId], frozenset[str]],
    ) -> None:
        self._me = me
        self._roster = roster
        self._profiles = profiles
        self._rows = rows
        self._grants = grants

    def may(self, host: str, profile: str) -> bool:
        """Whether `host` was granted this profile."""
        return host == self._me.host or f"spawn:{profile}" in self._grants(HostId(host))

    def trouble(self, body: SpawnBody, envelope: Envelope) -> tuple[str, str] | None:
        """Why it is not even begun: a word and a sentence."""
        profile = self._profiles.get(body.profile)
        if profile is None:
            return "no-such-profile", no_profile(self._me.host, body.profile, self._profiles)
        if (envelope.depth or 0) >= DEEPEST:
            return "depth", f"{DEEPEST} steps from agent to agent without a person"
        if body.name and not is_name(body.name):
            return "name", f"{body.name!r} is not a name for an agent: a-z, 0-9 and -, at most 32"
        if body.name and self._roster.by_name(body.name):
            return "name", f"an agent called {body.name} is on {self._me.host} already"
        if wrong := [group for group in body.groups if not is_name(group)]:
            return "group", f"{wrong[0]!r} is not a name for a group"
        if self._in_use(profile.name) >= profile.most:
            return "max", f"{profile.most} agents of {profile.name} are on {self._me.host} already; stop one first"
        return None

    def free_name(self, profile: str) -> str:
        """For an agent that was given none."""
        number, name = 1, profile
        while self._roster.by_name(name):
            number += 1
            name = f"{profile[:27]}-{number}"
        return name

    def _in_use(self, profile: str) -> int:
        """Agents of a profile that are there or on their way; one whose program ended leaves its place to another."""
        return sum(
            row.profile == profile and row.state.is_in_use and not self._is_away(row.spawn_id)
            for row in self._rows.values()
        )

    def _is_away(self, gid: Gid) -> bool:
        entity = self._roster.entities.get(gid)
        return entity is not None and entity.status == "away"


def no_profile(host: HostId, wanted: str, there: Collection[str]) -> str:
    """The sentence for a profile that a host has not."""
    has = f"it has: {', '.join(there)}" if there else "it has none"
    return f"{host} has no profile {wanted!r} ({has}; profiles are read when its daemon starts)"
