"""A fleet as an administrator sets it up: TLS, a login for each host, with the printed rights and no more."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator

import pytest

from fleettrio.private_files import write_private
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.waiting import wait_until

BEAT = "[timers]\nbeat_s = 0.5\n"


class SecureFleet(Fleet):
    """Prepared by nothing but the lines that `fleettrio broker` prints."""

    def uri(self, port: int = 0) -> str:
        assert self.broker is not None
        return f"amqps://localhost:{port or self.broker.tls_port}/{self.vhost}"

    def _prepare_broker(self) -> None:
        assert self.broker is not None
        self.broker.add_vhost(self.vhost)
        for name, host in self.hosts.items():
            user, password = self.logins[name] = (f"{self.vhost}-{name}", secrets.token_urlsafe(12))
            self.broker.add_user(user, password, self.vhost)
            host.configure(self.uri(), user, password, f'ca_file = "{self.broker.ca_file}"\n{BEAT}')
            for line in host.ok("broker", "permissions", name, "--user", user).text.splitlines():
                self.broker.rabbitmqctl(*shlex.split(line)[1:])
        secret = self.folder / "administrator"
        write_private(secret, b"guest\n", replace=True)
        self.hosts["alpha"].ok("broker", "plan", "--apply", "--user", "guest", "--password-file", str(secret))


@pytest.fixture(scope="module")
def secure(broker: BrokerNode) -> Iterator[SecureFleet]:
    with SecureFleet(broker, "alpha", "beta") as fleet:
        yield fleet


def test_a_whole_fleet_works_over_tls_with_the_printed_rights_alone(secure: SecureFleet) -> None:
    alpha, beta = secure["alpha"], secure["beta"]
    worker = str(beta.ok("attach", "--name", "worker", "--group", "crew", "--json").json()["token"])
    wait_until("alpha hears of the worker", lambda: alpha.agent("worker@beta"))
    wait_until("its inbox is open", lambda: (agent := beta.agent("worker@beta")) and agent.inbox == "open")
    asked = alpha.popen("send", "worker@beta", "how are you?", "--wait", "--timeout", "90")
    (brief,) = beta.ok("inbox", "--take", "--wait", "50", "--json", token=worker).json()["messages"]
    beta.ok("reply", brief["short"], "well, thank you", token=worker)
    out, err = asked.communicate(timeout=120)
    assert (asked.returncode, out.decode().strip()) == (0, "well, thank you"), err
    alpha.ok("broadcast", "--group", "crew", "all hands")
    assert "all hands" in beta.ok("inbox", "--take", "--wait", "50", token=worker).text
    wait_until("beta answers", lambda: alpha.cli("ping", "beta").code == 0)
    for host in (alpha, beta):
        assert host.ok("broker", "check").code == 0
