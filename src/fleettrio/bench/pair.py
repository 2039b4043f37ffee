"""Two hosts with shipped settings on one broker, and messages from one to agents of the other, counted at both ends."""

from __future__ import annotations

import collections
import contextlib
import functools
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from fleettrio.api.schema import Attach
from fleettrio.bench.context import Context
from fleettrio.bench.figures import TICK_S, Hop, cpu_s
from fleettrio.bench.patches import patched
from fleettrio.bench.programs import CountsDiffer, Program, last_line, program, wait_ready
from fleettrio.bench.traffic import IN_FLIGHT, Task, Told, Way
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host, clean_environment
from fleettrio.testing.waiting import wait_until

__all__ = ("BODY", "Pair", "compare_counts")

BODY = 1024
AGENTS = 4
WAYS = (Way(4, IN_FLIGHT), Way(1, 4, 64), Way(2, 4, 64), Way(1, 4, 256))
"""How a source may go about it; which is best depends on the machine, as the window of a peer does."""
_QUIET_S = 0.3
_SETTLE_S = 120.0


class Pair:
    """Hosts alpha and beta, up; pull agents on beta. A context manager.

    `implementation` is `compiled` or `pure`, `more` TOML beside the shipped settings, `env` for both daemons.
    They find the broker at `port`, if given. `patch` is Python that runs at the start of everything on these hosts.
    `way` is how a source goes about it, when that is not to be found out.
    """

    def __init__(
        self,
        context: Context,
        implementation: str = "compiled",
        *,
        agents: int = AGENTS,
        more: str = "",
        env: dict[str, str] | None = None,
        port: int = 0,
        patch: str = "",
        way: Way | None = None,
    ) -> None:
        self._context = context
        self.implementation = implementation
        pure = {"FLEETTRIO_NO_EXTENSIONS": "1"} if implementation == "pure" else {}
        self._agents = agents
        changed = patched(context.folder, patch) if patch else {}
        own = {**pure, **changed, **(env or {})}
        self._fleet = Fleet(context.broker(), "alpha", "beta", fleet_id="bench", more=more, env=own, port=port)
        self._way = way
        self.tokens: list[str] = []
        self.addresses: list[str] = []

    @property
    def alpha(self) -> Host:
        return self._fleet["alpha"]

    @property
    def beta(self) -> Host:
        return self._fleet["beta"]

    @property
    def lane(self) -> str:
        """How alpha's messages go to the broker: `fast` or `stock`."""
        return self.alpha.status().lane.partition(" ")[0]

    def __enter__(self) -> Self:
        self._context.progress.step(f"two hosts ({self.implementation})")
        self._fleet.__enter__()
        try:
            self.grow(self._agents)
        except BaseException:
            self._fleet.close()
            raise
        return self

    def grow(self, agents: int) -> None:
        """Attach agents until there are so many, and wait until both hosts know them."""
        with self.beta.client() as client:
            for number in range(len(self.addresses), agents):
                attached = client.call("attach", Attach(name=f"s{number}", takes="pull"))
                self.tokens.append(attached.token)
                self.addresses.append(f"s{number}@beta")
        self.wait_known(*self.addresses)

    def wait_known(self, *addresses: str) -> None:
        """Wait until both hosts know the agents."""
        for host in (self.alpha, self.beta):
            wait_until(
                f"{host.name} knows {', '.join(addresses[-1:])}", functools.partial(_knows, host, set(addresses))
            )

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._fleet.close()

    @property
    def way(self) -> str:
        """How its source goes about it, in words; empty while that was not found out."""
        return str(self._way or "")

    def best_way(self, count: int) -> Way:
        """The way in which a source gets most through, found with `count` messages in each."""
        if self._way is None:
            rates = {way: self.hop(count, way=way).rate for way in WAYS}
            self._way = max(rates, key=rates.__getitem__)
        return self._way

    def hop(self, count: int, *, body: int = BODY, way: Way = WAYS[0], readers: int | None = None) -> Hop:
        """Send `count` messages and wait until all are there, and both hosts are quiet again.

        They go to the first so many `readers` in turn, or to all agents.
        Raises `CountsDiffer` when the sink did not get each accepted message once.
        """
        computing = [self.alpha.pid, self.beta.pid, self._context.broker().pid]
        before = [*map(cpu_s, computing)]
        taking = Task(socket=str(self.beta.paths.socket), tokens=self.tokens[:readers], count=count)
        tokens = [self.alpha.operator_token] * way.connections
        sending = Task(
            socket=str(self.alpha.paths.socket),
            tokens=tokens,
            count=count,
            to=self.addresses[:readers],
            body=body,
            in_flight=way.in_flight,
            group=way.group,
        )
        with _program("sink", taking) as sink:
            wait_ready(sink)
            with _program("source", sending) as source:
                sent = _told(source)
            got = _told(sink)
        compare_counts(sent, got, count)
        self.wait_quiet()
        alpha_s, beta_s, broker_s = (cpu_s(pid) - begun for pid, begun in zip(computing, before, strict=True))
        written = dict(zip(sent.ids, sent.at, strict=True))
        waits = [at - written[msg_id] for msg_id, at in zip(got.ids, got.at, strict=True)]
        return Hop(count, got.ended - sent.began, alpha_s, beta_s, broker_s, sent.cpu + got.cpu, waits)

    def wait_quiet(self) -> None:
        """Until neither daemon computes: what a message costs includes the words that go back about it."""
        deadline = time.monotonic() + _SETTLE_S
        spent = -1.0
        while (now := cpu_s(self.alpha.pid) + cpu_s(self.beta.pid)) > spent + 2 * TICK_S:
            if time.monotonic() > deadline:
                raise CountsDiffer(f"the hosts still compute {_SETTLE_S:g} s after the last message was taken")
            spent = now
            time.sleep(_QUIET_S)


def _knows(host: Host, addresses: set[str]) -> bool:
    return addresses <= {agent.address for agent in host.status().fleet.agents}


def _program(end: str, task: Task) -> contextlib.AbstractContextManager[Program]:
    command = [sys.executable, "-P", "-m", "fleettrio.bench.traffic", end]
    return program(command, msgspec.json.encode(task), clean_environment())


def _told(process: Program) -> Told:
    return msgspec.json.decode(last_line(process), type=Told)


def compare_counts(sent: Told, got: Told, count: int) -> None:
    """Whether `count` messages were accepted and each of them was taken once. Raises `CountsDiffer`, which says how."""
    faults: list[str] = []
    if sent.refused:
        faults.append("refused: " + ", ".join(f"{number} × {word}" for word, number in sent.refused.items()))
    if len(sent.ids) != count:
        faults.append(f"{len(sent.ids)} of {count} were accepted")
    if missing := set(sent.ids) - set(got.ids):
        faults.append(f"{len(missing)} of {len(sent.ids)} never came")
    if strange := set(got.ids) - set(sent.ids):
        faults.append(f"{len(strange)} came that nobody sent")
    if repeated := _repeated(got.ids):
        faults.append(f"{repeated} came more than once")
    if faults:
        raise CountsDiffer("the counts do not match: " + "; ".join(faults))


def _repeated(ids: Sequence[str]) -> int:
    return sum(1 for number in collections.Counter(ids).values() if number > 1)
