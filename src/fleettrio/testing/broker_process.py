"""The process of a private RabbitMQ node, and of its port mapper: its files, its start, and its ends.

Everything of it is in one folder and on loopback: its own node name, ports, port mapper (epmd), data, log, plugins file
and cookie. What was started is ended by its process id. Everything here blocks. What a running node is told to do:
`broker_node`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from fleettrio.errors import FleetTrioError
from fleettrio.testing import certificates
from fleettrio.testing.ports import held_port

__all__ = ("BrokerNodeError", "BrokerProcess")

START_LIMIT_S = 300.0
STOP_LIMIT_S = 90.0
_LOOK_AGAIN_S = 0.05
_SERVER_FOLDERS = ("/usr/lib/rabbitmq/bin", "/usr/local/sbin", "/opt/homebrew/sbin")


class BrokerNodeError(FleetTrioError):
    """The private broker cannot be started, or one of its verbs failed."""


class BrokerProcess:
    """One node and its port mapper. `start()` and `stop()` may be repeated: ports and data stay. `close()` ends all."""

    def __init__(self, folder: Path, *, tls: bool = False, config: str = "") -> None:
        """`folder` is made when missing. `tls` adds a second port; `config` is appended to its `rabbitmq.conf`."""
        self.folder = folder.absolute()
        self.log_path = self.folder / "broker.log"
        self._server_folder = _server_folder()
        # Held from now on, also while nobody listens: nothing else on this machine gets them in between.
        self._held = [held_port() for _ in range(4)]
        self.port, self._dist_port, self._epmd_port, self.tls_port = (port.getsockname()[1] for port in self._held)
        if sys.platform != "linux":  # there it could not be shared with the broker either
            self._let_go()
        self._name = f"fleettrio-{self.port}@localhost"
        self._server: subprocess.Popen[bytes] | None = None
        self._epmd: subprocess.Popen[bytes] | None = None
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.ca_file = self.folder / "tls" / "ca.pem"
        if tls:
            certificates.make_certificates(self.ca_file.parent, "localhost")
        self._write_files(tls, config)

    def _write_files(self, tls: bool, config: str) -> None:
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", "log.file.level = info"]
        if tls:
            place = self.ca_file.parent
            lines += [
                f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}",
                f"ssl_options.cacertfile = {self.ca_file}",
                f"ssl_options.certfile = {place / 'server.pem'}",
                f"ssl_options.keyfile = {place / 'server.key'}",
            ]
        (self.folder / "rabbitmq.conf").write_text("\n".join([*lines, config, ""]))
        (self.folder / "enabled_plugins").write_text("[].\n")
        (self.folder / "rabbitmq-env.conf").write_text("")
        cookie = self.folder / ".erlang.cookie"
        if not cookie.exists():
            cookie.touch(0o600)
            cookie.write_text(os.urandom(16).hex())
            cookie.chmod(0o400)

    @property
    def name(self) -> str:
        """As Erlang knows it."""
        return self._name

    def program(self, name: str) -> str:
        """The path of a program of RabbitMQ's, as `rabbitmqctl`; it wants `environment`."""
        return f"{self._server_folder}/{name}"

    @property
    def environment(self) -> Mapping[str, str]:
        folder = str(self.folder)
        return {
            "PATH": f"{self._server_folder}:{os.environ.get('PATH', os.defpath)}",
            "HOME": folder,
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": self._name,
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CTL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": folder,
            "RABBITMQ_LOGS": str(self.log_path),
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/rabbitmq-env.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            # With this the script becomes the Erlang machine instead of waiting for it: one process id to know.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    # Its life

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        if self._server is None:
            raise BrokerNodeError("the private broker is not running")
        return self._server.pid

    def start(self) -> None:
        """Start the node and wait until it takes connections."""
        if self._epmd is None:
            self._epmd = self._spawn(["epmd", "-address", "127.0.0.1", "-port", str(self._epmd_port)])
        self._server = self._spawn([f"{self._server_folder}/rabbitmq-server"])
        self.wait_ready()

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.folder / "console.log", "ab") as console:
            try:
                # A session of its own: Ctrl-C at the terminal must not reach the broker before its clients.
                return subprocess.Popen(
                    command,
                    env=self.environment,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=console,
                    start_new_session=True,
                )
            except FileNotFoundError as error:
                hint = "apt-get install rabbitmq-server"
                raise BrokerNodeError(f"{command[0]} is not installed", hint=hint) from error

    def wait_ready(self, limit_s: float = START_LIMIT_S) -> None:
        """Wait until the node answers the AMQP greeting. Raises `BrokerNodeError` with the end of its log."""
        deadline = time.monotonic() + limit_s
        while not _greets(self.port):
            if self._server is None or self._server.poll() is not None:
                raise BrokerNodeError(f"the private broker ended while starting:\n{self._last_words()}")
            if time.monotonic() > deadline:
                raise BrokerNodeError(f"the private broker is not up after {limit_s:g} s:\n{self._last_words()}")
            time.sleep(_LOOK_AGAIN_S)

    def _last_words(self) -> str:
        logs = (self.folder / "console.log", self.log_path)
        text = "".join(log.read_text(errors="replace") for log in logs if log.exists())
        return "\n".join(text.splitlines()[-20:])

    def stop(self) -> None:
        """End the node cleanly; no-op when it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the node as a power cut would: SIGKILL, its children too."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop it in its tracks; its sockets stay open and silent."""
        os.kill(self.pid, signal.SIGSTOP)
        # Sending the signal is not enough: a thread on another core may answer one more frame.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        children = _children(server.pid)
        if server.poll() is None:
            server.send_signal(how)
            with contextlib.suppress(ProcessLookupError):
                server.send_signal(signal.SIGCONT)
        try:
            server.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def close(self) -> None:
        """Stop the node and its port mapper, and let its ports go. The folder stays."""
        self.stop()
        epmd, self._epmd = self._epmd, None
        if epmd is not None:
            epmd.kill()
            epmd.wait()
        self._let_go()

    def _let_go(self) -> None:
        for port in self._held:
            port.close()


def _server_folder() -> str:
    """Where `rabbitmq-server` is: not Debian's wrapper in PATH, which changes the user and serves the system's node."""
    for folder in _SERVER_FOLDERS:
        if os.access(f"{folder}/rabbitmq-server", os.X_OK):
            return folder
    found = shutil.which("rabbitmq-server")
    if found is None:
        raise BrokerNodeError("RabbitMQ is not installed on this machine", hint="apt-get install rabbitmq-server")
    return os.path.dirname(os.path.realpath(found))


def _greets(port: int) -> bool:
    """Whether a broker answers there. Its port opens last of all, when the rest of it is up."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return connection.recv(1) == b"\x01"
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    """Process ids of everything beneath `pid`."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listing.splitlines()]
    found = [pid]
    for parent in found:
        found += [child for child, of in pairs if of == parent]
    return found[1:]
