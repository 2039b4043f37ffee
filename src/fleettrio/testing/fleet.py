"""A fleet of hosts on this machine: configured, joined and started as people would, and ended with all they started."""

from __future__ import annotations

import functools
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.definitions import definitions
from fleettrio.testing.hosts import Host, clean_environment
from fleettrio.testing.waiting import wait_until

__all__ = ("Fleet",)


class Fleet:
    """Hosts in one fleet, running, on a virtual host of their own; without a broker each is standalone.

    A context manager. The first host founds the fleet and owns it.
    """

    def __init__(
        self,
        broker: BrokerNode | None,
        *names: str,
        fleet_id: str = "test",
        later: Sequence[str] = (),
        more: str = "[timers]\nbeat_s = 0.5\n",
        env: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> None:
        """`more` goes into each configuration, `env` into the environment of all; at `port`, if given, is the broker.

        Hosts named in `later` are configured, and neither joined nor started.
        """
        # A short path: sockets below it must fit into 100 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="ft-"))
        self.broker = broker
        self.vhost = f"fleet-{secrets.token_hex(4)}"
        self._more, self._fleet_id, self._port = more, fleet_id, port
        # Daemons are killed here at will: only a test about that makes them start safe.
        base = {**clean_environment(), "TMUX_TMPDIR": str(self.folder), "FLEETTRIO_LIMITS_DEATHS": "0", **(env or {})}
        self.hosts = {name: Host(name, self.folder / name, base) for name in (*names, *later)}
        self._first = [self.hosts[name] for name in names]
        self.logins: dict[str, tuple[str, str]] = {}
        """Host → user and password at the broker."""

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def __enter__(self) -> Self:
        try:
            self._prepare_broker()
            self._join()
            for host in self._first:
                host.begin()
            for host in self._first:
                host.wait_broker("standalone", "connected")
            self.wait_heard(*self._first)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare_broker(self) -> None:
        if self.broker is None:
            for host in self.hosts.values():
                host.configure(more=self._more)
            return
        self.logins = {name: (f"{self.vhost}-{name}", secrets.token_urlsafe(12)) for name in self.hosts}
        reporter = next(iter(self.hosts))
        self.broker.import_definitions(definitions(self.vhost, self.logins, reporter=reporter, admin="guest"))
        for name, host in self.hosts.items():
            host.configure(self.uri(), *self.logins[name], more=self._more)

    def uri(self, port: int = 0) -> str:
        """Where its hosts find the broker, without a login; `port` for a way around."""
        assert self.broker is not None
        return f"amqp://127.0.0.1:{port or self._port or self.broker.port}/{self.vhost}"

    def _join(self) -> None:
        """As people would: the first host founds, adds the lines of the others, and its signed file is carried over."""
        owner, *others = self._first
        owner.ok("init", "--new-fleet", self._fleet_id)
        for host in others:
            self.add(host)
        if others:
            self.carry(*others)

    def add(self, host: Host, *options: str) -> None:
        """Make the host's key, and let the owner sign it in. Who has not got the new file does not trust it yet."""
        line = next(word for word in host.ok("init").text.split() if word.startswith("ft-host-1:"))
        self._first[0].ok("host", "add", line, "--yes", *options)

    def carry(self, *others: Host) -> None:
        """Bring the owner's fleet file to these."""
        file = self.folder / "fleet.cbor"
        file.write_bytes(self._first[0].ok("host", "export").out)
        for host in others:
            host.ok("host", "import", str(file), "--yes")

    def wait_heard(self, *hosts: Host) -> None:
        """Wait until each of these hosts hears each other one."""
        if self.broker is None:
            return
        for host in hosts or self._first:
            wanted = {other.name for other in hosts or self._first} - {host.name}
            wait_until(f"{host.name} hears all others", functools.partial(_hears, host, wanted))

    def close(self) -> None:
        """End what was started and take the files away; the virtual host goes with the broker."""
        for host in self.hosts.values():
            host.kill()
            host.end_panes()
        shutil.rmtree(self.folder, ignore_errors=True)


def _hears(host: Host, wanted: set[str]) -> bool:
    return wanted <= {other.host for other in host.status().fleet.hosts if other.status == "up"}
