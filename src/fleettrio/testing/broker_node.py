"""A private RabbitMQ node: for tests, and for `fleettrio demo` on a user's machine. Never the system's own.

Everything of it is in one folder and on loopback: its own node name, ports, port mapper (epmd), data, log, plugins file
and cookie. What was started is ended by its process id. All verbs block; from Trio, `broker_node()` starts and stops it
in a thread, and a verb that takes long is called through `trio.to_thread.run_sync`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import trio

from fleettrio.errors import FleetTrioError
from fleettrio.testing import certificates

__all__ = ("BrokerNode", "BrokerNodeError", "broker_node")

START_LIMIT_S = 90.0
STOP_LIMIT_S = 30.0
_LOOK_AGAIN_S = 0.05
_SERVER_FOLDERS = ("/usr/lib/rabbitmq/bin", "/usr/local/sbin", "/opt/homebrew/sbin")


class BrokerNodeError(FleetTrioError):
    """The private broker cannot be started, or one of its verbs failed."""


class BrokerNode:
    """One node and its port mapper. `start()` and `stop()` may be repeated: ports and data stay. `close()` ends all."""

    def __init__(self, folder: Path, *, tls: bool = False, config: str = "") -> None:
        """`folder` is made when missing. `tls` adds a second port; `config` is appended to its `rabbitmq.conf`."""
        self.folder = folder.absolute()
        self.log_path = self.folder / "broker.log"
        self._server_folder = _server_folder()
        self.port, self._dist_port, self._epmd_port, self.tls_port = _free_ports(4)
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
    def _environment(self) -> Mapping[str, str]:
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
                    env=self._environment,
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
        """Stop the node and its port mapper. The folder stays."""
        self.stop()
        epmd, self._epmd = self._epmd, None
        if epmd is not None:
            epmd.kill()
            epmd.wait()

    # Its verbs

    def uri(self, user: str = "guest", vhost: str = "/", *, password: str = "", secure: bool = False) -> str:
        """A broker URI on loopback; `password` goes into it when given."""
        login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        scheme, place = ("amqps", f"localhost:{self.tls_port}") if secure else ("amqp", f"127.0.0.1:{self.port}")
        return f"{scheme}://{login}@{place}/{quote(vhost, safe='')}"

    def rabbitmqctl(self, *arguments: str) -> str:
        """Run `rabbitmqctl` against this node (about a second); returns what it prints."""
        return self._run([f"{self._server_folder}/rabbitmqctl", "--quiet", "--node", self._name, *arguments])

    def evaluate(self, expression: str) -> str:
        """Evaluate an Erlang expression on the node: in milliseconds with `erl_call`, else through `rabbitmqctl`."""
        if shutil.which("erl_call") is None:
            return self.rabbitmqctl("eval", expression)
        cookie = (self.folder / ".erlang.cookie").read_text()
        return self._run(["erl_call", "-c", cookie, "-name", self._name, "-e"], f"{expression}\n")

    def _run(self, command: list[str], given: str = "") -> str:
        try:
            done = subprocess.run(
                command, input=given, env=self._environment, capture_output=True, text=True, timeout=60, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerNodeError(f"{Path(command[0]).name} did not end within 60 s") from error
        answer = done.stdout.strip()
        if done.returncode != 0 or answer.startswith("{error"):
            raise BrokerNodeError(f"{Path(command[0]).name} failed: {answer or done.stderr.strip()}")
        return answer

    def add_vhost(self, name: str, user: str = "guest") -> None:
        """Make a virtual host in which `user` may do everything."""
        self.evaluate(
            f'ok = rabbit_vhost:add({_text(name)}, <<"fleettrio">>),{_permissions(user, name, ".*", ".*", ".*")}.'
        )

    def delete_vhost(self, name: str) -> None:
        self.evaluate(f'rabbit_vhost:delete({_text(name)}, <<"fleettrio">>).')

    def add_user(
        self, name: str, password: str, vhost: str, configure: str = "", write: str = "", read: str = ""
    ) -> None:
        """Make a user with these permissions (regular expressions; empty: none) in `vhost`."""
        self.evaluate(
            f'ok = rabbit_auth_backend_internal:add_user({_text(name)}, {_text(password)}, <<"fleettrio">>),'
            f"{_permissions(name, vhost, configure, write, read)}."
        )

    def import_definitions(self, definitions: Mapping[str, Any]) -> None:
        """Make what these definitions name, in RabbitMQ's own form; what exists already stays."""
        text = _text(json.dumps(definitions))
        self.evaluate(f"ok = rabbit_definitions:import_raw({text}).")

    def message_count(self, queue: str, vhost: str = "/") -> int:
        """Ready and unacknowledged messages in a queue; 0 when there is none of that name."""
        name = f"rabbit_misc:r({_text(vhost)}, queue, {_text(queue)})"
        count = "{ok, Q} -> [{_, N}] = rabbit_amqqueue:info(Q, [messages]), N; _ -> 0"
        answer = self.evaluate(f"case rabbit_amqqueue:lookup({name}) of {count} end.")
        return int(answer.removeprefix("{ok, ").removesuffix("}"))  # erl_call says that it is well

    def raise_memory_alarm(self) -> None:
        """Make every publishing connection blocked, as a broker short of memory does."""
        self.evaluate("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).")

    def clear_alarm(self) -> None:
        self.evaluate("rabbit_alarm:clear_alarm({resource_limit, memory, node()}).")


@contextlib.asynccontextmanager
async def broker_node(folder: Path, *, tls: bool = False, config: str = "") -> AsyncIterator[BrokerNode]:
    """A running node for the body. Also after cancellation everything it started has ended."""
    node = await trio.to_thread.run_sync(lambda: BrokerNode(folder, tls=tls, config=config))
    try:
        await trio.to_thread.run_sync(node.start)
        yield node
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(node.close)


def _permissions(user: str, vhost: str, configure: str, write: str, read: str) -> str:
    rules = ", ".join(_text(rule) for rule in (configure, write, read))
    return f'rabbit_auth_backend_internal:set_permissions({_text(user)}, {_text(vhost)}, {rules}, <<"fleettrio">>)'


def _text(value: str) -> str:
    """`value` as an Erlang binary."""
    return f"<<{','.join(str(byte) for byte in value.encode())}>>" if value else "<<>>"


def _server_folder() -> str:
    """Where `rabbitmq-server` is: not Debian's wrapper in PATH, which changes the user and serves the system's node."""
    for folder in _SERVER_FOLDERS:
        if os.access(f"{folder}/rabbitmq-server", os.X_OK):
            return folder
    found = shutil.which("rabbitmq-server")
    if found is None:
        raise BrokerNodeError("RabbitMQ is not installed on this machine", hint="apt-get install rabbitmq-server")
    return os.path.dirname(os.path.realpath(found))


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(socket.socket()) for _ in range(count)]
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in holders]


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
