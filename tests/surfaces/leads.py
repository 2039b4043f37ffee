"""Two fleets that have nothing in common but a broker, and a coordinator's vhost and fleet file for their leads."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleettrio.ids import FleetId
from fleettrio.private_files import write_private
from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.definitions import definitions
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.raw_client import RawClient
from fleettrio.testing.waiting import wait_until
from fleettrio.wire.gids import HUMAN_SALT, derive_gid
from fleettrio.wire.kinds import Kind
from tests.surfaces.forger import Forged, good, signer_of

LEADS = FleetId("leads")
_SECTION = """[timers]
beat_s = 0.5
[coordinator]
coord_id = "{coord_id}"
uris = ["amqp://127.0.0.1:{port}/{vhost}"]
user = "{user}"
password_file = "{file}"
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Leads:
    """alpha of the fleet `north` has lead-a, beta of `south` has lead-b; gamma is a host of the coordinator's alone.

    alpha reports the dead letters of the leads.
    """

    broker: BrokerNode
    alpha: Host
    beta: Host
    gamma: Host
    vhost: str
    logins: dict[str, tuple[str, str]]

    def raw(self, host: str) -> RawClient:
        """A connection to the coordinator's vhost with that host's login."""
        user, password = self.logins[host]
        return RawClient(self.broker.port, self.vhost, user=user, password=password)

    def by_hand(self, host: Host, kind: Kind, to: str, **fields: object) -> Forged:
        """Signed by `host` for the coordinator's fleet, and published to the mailbox of lead-b."""
        sender = derive_gid(LEADS, host.name, HUMAN_SALT)
        changes: dict[str, Any] = {"kind": str(kind), "from": sender, **fields}
        forged = good(host, to, **changes)
        return dataclasses.replace(forged, signer=signer_of(host, fleet=LEADS), exchange="fleet.ops", key="lead.lead-b")

    def wait_link(self, host: Host, *states: str) -> None:
        """Wait until the link of `host` to the coordinator is in one of these states, and its mailbox open if up."""

        def is_there() -> bool:
            lead = host.status().fleet.coordination
            return lead is not None and lead.broker in states and (lead.broker != "connected" or lead.mailbox == "open")

        wait_until(f"{host.name} is {' or '.join(states)} to the coordinator", is_there)


@contextlib.contextmanager
def leads(broker: BrokerNode, room: TmuxRoom) -> Iterator[Leads]:
    """Both fleets run; their leads are not attached yet."""
    vhost = f"leads-{secrets.token_hex(4)}"
    coord_ids = {"alpha": "lead-a", "beta": "lead-b", "gamma": "lead-c"}
    logins = {name: (f"{vhost}-{name}", secrets.token_urlsafe(12)) for name in coord_ids}
    broker.import_definitions(definitions(vhost, logins, reporter="alpha", admin="guest", coord_ids=coord_ids))
    with tempfile.TemporaryDirectory(prefix="ft-") as folder, contextlib.ExitStack() as stack:
        hosts = []
        for name, fleet_id in (("alpha", "north"), ("beta", "south")):
            user, password = logins[name]
            file = Path(folder) / f"{name}.password"
            write_private(file, f"{password}\n".encode(), replace=True)
            more = _SECTION.format(coord_id=coord_ids[name], port=broker.port, vhost=vhost, user=user, file=file)
            fleet = stack.enter_context(Fleet(broker, name, fleet_id=fleet_id, more=more, env=room.env))
            hosts.append(fleet[name])
        hub, gamma = Host("hub", Path(folder) / "hub"), Host("gamma", Path(folder) / "gamma")
        for host in (hub, gamma):
            host.configure()
        hub.ok("init", "--new-fleet", LEADS)
        for host in hosts:
            grants = "send,ask,reply,broadcast,stop,pause" + ",report" * (host.name == "alpha")
            _add(hub, host, "--coord-id", coord_ids[host.name], "--grants", grants)
        _add(hub, gamma)
        export = Path(folder) / "leads.cbor"
        export.write_bytes(hub.ok("host", "export").out)
        for host in hosts:
            assert "was not imported yet" in " ".join(host.cli("doctor").text.split())
            host.ok("host", "import", "--coordinator", str(export), "--yes")
            host.stop()
            host.up()
        yield Leads(broker, hosts[0], hosts[1], gamma, vhost, logins)


def _add(hub: Host, host: Host, *options: str) -> None:
    line = next(word for word in host.ok("init").text.split() if word.startswith("ft-host-1:"))
    hub.ok("host", "add", line, "--yes", *options)
