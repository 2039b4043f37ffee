"""The trust of a running daemon: the fleet file as the disk has it now, effective from the next delivery on."""

from __future__ import annotations

from fleettrio.config import Config
from fleettrio.core.events import FromCoordinator, TrustChanged
from fleettrio.identity import Identity, load_fleet, load_identity
from fleettrio.perform import Performer
from fleettrio.wire.fleet import Fleet
from fleettrio.wire.signing import Verifier

__all__ = ("Trust",)


class Trust:
    def __init__(self, config: Config, identity: Identity, verifier: Verifier, performer: Performer) -> None:
        self.problem = identity.problem
        """Why other hosts will refuse us, empty when our own fleet file trusts our key."""
        self._config = config
        self._verifier = verifier
        self._performer = performer
        self.coordinator: Verifier | None = None
        """Judges what comes from the coordinator's broker."""

    async def reload(self) -> Fleet:
        """Read the fleet files again. Raises `ConfigError`, and then everything stays as it was.

        Cancelled after the file was read, the new trust holds all the same.
        """
        identity = load_identity(self._config.paths, self._config)
        leads = load_fleet(self._config.paths.of_coordinator) if self.coordinator else None
        self.problem = identity.problem
        self._verifier.set_fleet(identity.fleet)
        if self.coordinator and leads:
            self.coordinator.set_fleet(leads)
            await self._performer.handle(FromCoordinator(TrustChanged(leads)))
        await self._performer.handle(TrustChanged(identity.fleet))
        return identity.fleet
