"""A private RabbitMQ node: for tests, and for `fleettrio demo` on a user's machine. Never the system's own.

What it can be told while it runs: vhosts, users, queues, alarms. All verbs block. How it runs: `broker_process`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fleettrio.testing.broker_process import BrokerNodeError, BrokerProcess
from fleettrio.testing.waiting import BOUND_S, wait_until

__all__ = ("BrokerNode",)

_VERB_LIMIT_S = 600.0
_TRY_AGAIN_S = 0.2


class BrokerNode(BrokerProcess):
    """One node, from `start()` to `close()`, and its verbs."""

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
        command = ["erl_call", "-c", cookie, "-name", self._name, "-e"]
        until = time.monotonic() + BOUND_S
        while time.monotonic() < until:
            try:
                return self._run(command, f"{expression}\n")
            except BrokerNodeError as error:
                # A node may take no handshake for a while, though it serves its clients: nothing was evaluated then.
                if "failed to connect" not in str(error):
                    raise
                time.sleep(_TRY_AGAIN_S)
        return self.rabbitmqctl("eval", expression)

    def _run(self, command: list[str], given: str = "") -> str:
        try:
            done = subprocess.run(
                command,
                input=given,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=_VERB_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerNodeError(f"{Path(command[0]).name} did not end within {_VERB_LIMIT_S:.0f} s") from error
        answer = done.stdout.strip()
        if done.returncode != 0 or answer.startswith("{error"):
            raise BrokerNodeError(f"{Path(command[0]).name} failed: {answer or done.stderr.strip()}")
        return answer

    def add_vhost(self, name: str) -> None:
        """Make a virtual host in which `guest` may do everything."""
        self.evaluate(
            f'ok = rabbit_vhost:add({_text(name)}, <<"fleettrio">>),{_permissions("guest", name, ".*", ".*", ".*")}.'
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
        count = "{ok, Q} -> [{_, N}] = rabbit_amqqueue:info(Q, [messages]), N; _ -> 0"
        return self._number(f"case {_lookup(queue, vhost)} of {count} end.")

    def drop_consumers(self, queue: str, vhost: str = "/") -> None:
        """End the channels that consume from a queue, so that what comes to it stays in the broker."""
        consumers = f"{{ok, Q}} = {_lookup(queue, vhost)}, Consumers = rabbit_amqqueue:consumers(Q)"
        self.evaluate(f"{consumers}, [exit(element(1, Consumer), kill) || Consumer <- Consumers].")
        wait_until(f"{queue} has no consumer", lambda: not self._number(f"{consumers}, length(Consumers)."))

    def _number(self, expression: str) -> int:
        return int(self.evaluate(expression).removeprefix("{ok, ").removesuffix("}"))  # erl_call says that it is well

    def raise_memory_alarm(self) -> None:
        """Make every publishing connection blocked, as a broker short of memory does."""
        self.evaluate("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).")

    def set_consumer_timeout(self, limit_ms: int = 0, look_every_ms: int = 0) -> None:
        """How long a delivery may stay unacknowledged, and how often the broker looks, on channels opened from now on.

        0: the broker's own, half an hour and a minute.
        """
        for name, value, usual in (
            ("consumer_timeout", limit_ms, 1_800_000),
            ("channel_tick_interval", look_every_ms, 60_000),
        ):
            self.evaluate(f"application:set_env(rabbit, {name}, {value or usual}).")

    def clear_alarm(self) -> None:
        self.evaluate("rabbit_alarm:clear_alarm({resource_limit, memory, node()}).")


def _permissions(user: str, vhost: str, configure: str, write: str, read: str) -> str:
    rules = ", ".join(_text(rule) for rule in (configure, write, read))
    return f'rabbit_auth_backend_internal:set_permissions({_text(user)}, {_text(vhost)}, {rules}, <<"fleettrio">>)'


def _lookup(queue: str, vhost: str) -> str:
    return f"rabbit_amqqueue:lookup(rabbit_misc:r({_text(vhost)}, queue, {_text(queue)}))"


def _text(value: str) -> str:
    """`value` as an Erlang binary."""
    return f"<<{','.join(str(byte) for byte in value.encode())}>>" if value else "<<>>"
