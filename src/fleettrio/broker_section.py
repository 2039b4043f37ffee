"""`[broker]` and `[coordinator]`: how a broker is reached, and what may be wrong with what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import msgspec

from fleettrio.wire.gids import NAME_RULE, is_name

if TYPE_CHECKING:
    from fleettrio.broker.port import BrokerSettings

__all__ = ("BrokerSection", "CoordinatorSection", "broker_problems", "coordinator_problems")


class BrokerSection(msgspec.Struct, frozen=True):
    """`[broker]`. Without this section (or with no `uris`) the daemon is standalone and opens no TCP socket."""

    uris: tuple[str, ...] = ()
    """Tried in turn, from the last good one: `amqps://host:5671/vhost`."""
    user: str = ""
    password_file: str = ""
    """Read at each connect, so that a login can change without a restart. Mode 0600."""
    ca_file: str = ""
    allow_plaintext: bool = False
    """Allow `amqp://` to another machine: everybody on the way reads along."""
    heartbeat_s: Annotated[int, msgspec.Meta(ge=2, le=60)] = 10
    fast_lane: bool = True
    """False: publish and take by the AMQP library alone, as with versions of it that the fast lane does not know."""

    def settings(self) -> BrokerSettings | None:
        """How to reach that broker; None when there is none."""
        # Imported here: every CLI call reads the configuration, and the port would make each of them load Trio.
        from fleettrio.broker.port import BrokerSettings

        if not self.uris:
            return None
        return BrokerSettings(
            uris=self.uris,
            user=self.user,
            password_file=self.password_file,
            ca_file=self.ca_file,
            allow_plaintext=self.allow_plaintext,
            heartbeat_s=self.heartbeat_s,
            fast_lane=self.fast_lane,
        )


class CoordinatorSection(BrokerSection, frozen=True):
    """`[coordinator]`: a vhost that leads of different fleets share, with a login of its own."""

    coord_id: str = ""
    """By which name other leads address the lead here; the coordinator's fleet file pairs it with this host."""
    lead: str = "lead"
    """The name of the agent here that is the lead."""


def coordinator_problems(coordinator: CoordinatorSection, *, given: bool) -> list[str]:
    if not given:
        return []
    problems = broker_problems(coordinator, "coordinator", given=True)
    if not is_name(coordinator.coord_id):
        said = f"{coordinator.coord_id!r} is not a coordId" if coordinator.coord_id else "missing"
        problems.append(f"coordinator.coord_id: {said} ({NAME_RULE})")
    if not is_name(coordinator.lead) and coordinator.lead != "human":
        problems.append(f"coordinator.lead: {coordinator.lead!r} names no agent")
    return problems


def broker_problems(broker: BrokerSection, section: str, *, given: bool) -> list[str]:
    """What is wrong with this section. A URI is named by its place in the list, never shown: it may hold a password."""
    problems = []
    if given and not broker.uris:
        problems.append(f"{section}.uris: give at least one, or take the [{section}] section out")
    for place, uri in enumerate(broker.uris):
        key = f"{section}.uris[{place}]"
        try:
            parts = urlsplit(uri)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            problems.append(f"{key}: is not a URI ({'bad port' if 'ort' in str(error) else 'bad host'})")
            continue
        if parts.scheme not in ("amqp", "amqps"):
            problems.append(f"{key}: must begin with amqps:// (or amqp://)")
        elif not host:
            problems.append(f"{key}: names no host, as in amqps://broker.example:5671/fleet")
    if broker.password_file and not broker.user:
        problems.append(f"{section}.user: missing, though there is a {section}.password_file")
    return problems
