"""A person on alpha and workers in panes on beta, and what became of a brief as each side tells it."""

from __future__ import annotations

import os
from typing import Any

from fleettrio.api.schema import MessageView, Send, SendResult, Show, Shown
from fleettrio.testing.agents.room import StandIn, TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until

ROUNDS = int(os.environ.get("FLEETTRIO_FAULT_ROUNDS", "2"))
"""How often each fault strikes: a few in `make test`, twenty in `make faults`."""


class Pair:
    """Two hosts of a fleet. The worker's own log is the oracle: a program in a pane that writes down each turn."""

    def __init__(self, fleet: Fleet, room: TmuxRoom) -> None:
        assert fleet.broker is not None
        self.broker = fleet.broker
        self.fleet = fleet
        self.room = room
        self.alpha, self.beta = fleet["alpha"], fleet["beta"]
        self.person = self.alpha.operator_token
        """Who sends: so many briefs from an agent would be slowed down, and the same words twice held as a loop."""
        self.worker = self.hire("worker")

    def hire(self, name: str) -> StandIn:
        """A worker in a pane of its own, known on beta and heard of on alpha."""
        worker = self.room.place()
        wait_until(f"{name} is on the screen", lambda: "stand-in agent" in self.room.screen(worker.pane))
        attach(self.beta, name, "--pane", worker.target, "--harness", "script")
        wait_until(f"alpha hears of {name}", lambda: self.alpha.agent(f"{name}@beta"))
        return worker

    def send(self, body: str, to: str = "worker@beta") -> MessageView:
        with self.alpha.client(self.person) as client:
            result: SendResult = client.call("send", Send(to=[to], body=body.encode()))
        return result.messages[0]

    def view(self, msg_id: str) -> MessageView:
        """How alpha sees it now."""
        with self.alpha.client(self.person) as client:
            shown: Shown = client.call("show", Show(msg_id))
        return shown.messages[0]

    def wait_outcome(self, msg_id: str, *states: str) -> MessageView:
        """The view once it is in one of these states."""
        last: list[MessageView] = []

        def there() -> MessageView | None:
            last[:] = [self.view(msg_id)]
            return last[0] if last[0].state in states else None

        try:
            return wait_until(f"{msg_id} is {' or '.join(states)} at alpha", there)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {last[0]}\n{self.beta.last_words()}") from None

    def has_draft(self, worker: StandIn) -> bool:
        """Whether a framed text stands in its composer, not submitted."""
        return "[fleettrio " in self.room.screen(worker.pane).rpartition("❯ ")[2]

    def submit_draft(self, worker: StandIn) -> None:
        """What a crash left half typed is the person's, to send or to delete; nothing lands past it until then."""
        self.room.tmux("send-keys", "-t", worker.pane, "Enter")
        wait_until("the composer is empty again", lambda: not self.has_draft(worker))

    def turns_of(self, short: str, worker: StandIn | None = None) -> int:
        """How many turns of the worker hold the frame of this message."""
        return sum(f" {short} from " in turn for turn in (worker or self.worker).turns())


def attach(host: Host, name: str, *options: str) -> str:
    """Make an agent known; its token."""
    attached: dict[str, Any] = host.ok("attach", "--name", name, *options, "--json").json()
    return str(attached["token"])
