"""What the stories play on: a private broker, the hosts alpha and beta, a lead and a worker, and a project.

`ready()` brings back whatever a story killed, so that each story starts on the same stage.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from fleettrio.demo.hosts import Host
from fleettrio.demo.narrate import Narrator
from fleettrio.demo.pane import WorkerPane
from fleettrio.demo.repository import Repository
from fleettrio.demo.workers import WorkerLog
from fleettrio.ids import FleetId
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.definitions import definitions
from fleettrio.testing.hosts import clean_environment

__all__ = ("CODER", "FLEET", "LEAD", "PROJECT_FILE", "VHOST", "WORKER", "Stage")

FLEET = FleetId("demo")
VHOST = "fleet"
LEAD, WORKER, CODER = "lead@alpha", "worker@beta", "coder@beta"
PROJECT_FILE = "retry.py"
_GRANTS = "send,ask,reply,broadcast,report,stop,spawn:coder"
_PROFILE = """
[[profile]]
name = "coder"
command = {command}
cwd = {cwd}
harness = "script"
groups = ["crew"]
"""


class Stage:
    """A context manager: set up on entering, everything that was started has ended on leaving, by its process id."""

    def __init__(self, folder: Path, narrator: Narrator, *, with_beta: bool = True) -> None:
        """`with_beta` False: beta is in the fleet, but switched off."""
        self.narrator = narrator
        self.with_beta = with_beta
        self.folder = folder
        tmux_folder = folder / "tmux"
        tmux_folder.mkdir(mode=0o700)
        env = {**clean_environment(), "TMUX_TMPDIR": str(tmux_folder)}
        self.alpha = Host("alpha", folder / "alpha", env, narrator)
        self.beta = Host("beta", folder / "beta", env, narrator)
        self.hosts = (self.alpha, self.beta)
        self.logs = {address: WorkerLog(folder, address.partition("@")[0]) for address in (WORKER, CODER)}
        self.worker = self.logs[WORKER]
        self.pane = WorkerPane(self.worker, self.beta.env, narrator)
        self.passwords = {host.name: secrets.token_urlsafe(18) for host in self.hosts}
        self.broker = BrokerNode(folder / "broker")
        self._broker_runs = False
        self.lead_token = ""

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _set_up(self) -> None:
        say = self.narrator.say
        with ThreadPoolExecutor(max_workers=1) as beside:
            starting = beside.submit(self.start_broker)
            self.project = Repository.founded(self.folder / "work-alpha", PROJECT_FILE, "TRIES = 3\n")
            self.clone = self.project.clone(self.folder / "work-beta")
            profile = _PROFILE.format(
                command=json.dumps(self.logs[CODER].command), cwd=json.dumps(str(self.clone.folder))
            )
            for host, more in ((self.alpha, ""), (self.beta, profile)):
                host.settle(f"amqp://127.0.0.1:{self.broker.port}/{VHOST}", self.passwords[host.name], more)
            self._found_fleet()
            starting.result()
        # What an administrator does once: the fleet's exchanges, and for each host a login that reaches its own queues.
        logins = {name: (name, password) for name, password in self.passwords.items()}
        self.broker.import_definitions(definitions(VHOST, logins, reporter="alpha"))
        say(f"broker   a private RabbitMQ node on port {self.broker.port}, a login with least rights for each host")
        for host in self._running():
            host.begin()
        for host in self._running():
            host.wait_ready()
        attach = ("attach", "--name", "lead", "--role", "lead", "--json")
        attached = self.alpha.call(*attach, cwd=self.project.folder).json()
        self.lead_token = attached["token"]
        say(f"alpha    its own home, key and login; {LEAD} fetches its mail (pull)")
        if self.with_beta:
            self.pane.start()
            pane = ("--pane", self.pane.target, "--harness", "script")
            self.beta.call("attach", "--name", "worker", "--role", "worker", *pane)
            say(f"beta     its own home, key and login; {WORKER} lives in tmux pane {self.pane.target}")
        else:
            say("beta     its own home, key and login; it is switched off")

    def _found_fleet(self) -> None:
        """As two people would: alpha founds, beta's line is added, the signed file is carried over."""
        self.alpha.call("init", "--new-fleet", FLEET)
        self.alpha.call("host", "add", _line(self.beta), "--yes")
        self.alpha.call("host", "add", _line(self.alpha), "--yes", "--grants", _GRANTS)
        file = self.folder / "fleet.cbor"
        file.write_bytes(self.alpha.call("host", "export").out)
        self.beta.call("host", "import", str(file), "--yes")

    def _running(self) -> tuple[Host, ...]:
        return self.hosts if self.with_beta else (self.alpha,)

    def ready(self) -> None:
        """Everything runs and is connected again, whatever the story before did."""
        for log in self.logs.values():
            log.release()
        self.start_broker()
        for host in self._running():
            if not host.is_up:
                host.begin()
        for host in self._running():
            host.wait_ready()

    def let_expire(self, gid: str) -> None:
        """An administrator's policy: what waits at the broker for this agent on beta dies at once."""
        policy = {"vhost": VHOST, "name": f"short-{gid}", "pattern": f"^agent\\.{gid}\\.", "apply-to": "queues"}
        self.broker.import_definitions({"policies": [{**policy, "priority": 1, "definition": {"message-ttl": 100}}]})

    def kill_broker(self) -> None:
        """End the node as a power cut would. Its port and its data stay."""
        self.broker.kill()
        self._broker_runs = False

    def start_broker(self) -> None:
        """Start the node; no-op when it runs."""
        if not self._broker_runs:
            with self.narrator.progress("the broker starts"):
                self.broker.start()
            self._broker_runs = True

    def close(self) -> None:
        """Worker, daemons, broker: each is ended although ending another one failed."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.broker.close)
            for host in self.hosts:
                stack.callback(host.stop)
                stack.callback(host.end_panes)
            stack.callback(self.pane.close)


def _line(host: Host) -> str:
    """What `init` prints for the owner of the fleet."""
    return next(word for word in host.call("init").out.decode().split() if word.startswith("ft-host-1:"))
