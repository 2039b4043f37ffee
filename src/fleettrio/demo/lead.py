"""The lead's side of the stories: what it sends, what it gets back, and whether that is what the worker really did.

The lead is an agent, and works on a person's orders: agents that go on among themselves for eight messages are held.
The person at alpha sends briefs, too.

A brief counts as answered only when four things agree: what was sent, the worker's own log (SHA-256 of the stored body,
and of the text in its frame), the answer that came back, and the number that the worker drew.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fleettrio.api.schema import Confirm, Pull, Pulled, Send
from fleettrio.demo.hosts import CommandFailed
from fleettrio.demo.stage import CODER, WORKER, Stage
from fleettrio.errors import NO_BROKER, UNKNOWN, WAITING, FleetTrioError
from fleettrio.ids import short_id
from fleettrio.local.sanitise import clean
from fleettrio.testing.hosts import Outcome

__all__ = ("Answer", "Brief", "Lead", "StoryFailed", "text_of")

TAKE_S = 45.0
ORDERS = 3
"""Briefs of the lead that one order of the person covers."""

_answer = re.compile(r"sha256 (?P<sha256>[0-9a-f]{64})\nnumber (?P<number>\d+)\n")


class StoryFailed(FleetTrioError):
    """What came of a story is not what was promised."""


@dataclasses.dataclass(frozen=True, slots=True)
class Brief:
    """What the lead sent, and how its command ended."""

    name: str
    body: bytes
    to: str
    msg_id: str
    trace_id: str
    code: int
    state: str
    sentence: str

    @property
    def short(self) -> str:
        return short_id(self.msg_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    short: str
    sender: str
    re: str
    body: bytes


class Lead:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._answers: dict[tuple[str, str], Answer] = {}
        """By the id of what they answer, and by its author."""
        self._turn = threading.Lock()
        self._left = 0
        """Briefs that the last order still covers."""

    # What it does

    def told(self, what: str) -> None:
        """The person at alpha asks it for this, and it reads that."""
        alpha = self.stage.alpha
        with alpha.client() as person:
            person.call("send", Send(to=["lead"], body=what.encode(), wants_reply=False))
        with alpha.client(self.stage.lead_token) as lead:
            pulled: Pulled = lead.call("pull", Pull(sender="human", wait_s=TAKE_S))
            lead.call("confirm", Confirm(pulled.cursor))
        self._left = ORDERS

    def ask(
        self, name: str, body: bytes, limit_s: float = 120.0, *, by_person: bool = False
    ) -> tuple[Brief, Answer | None]:
        """Send to the worker, or let the person do it, and wait for the answer; None when the time was over first."""
        arguments = ("send", WORKER, "-", "--wait", "--timeout", f"{limit_s:g}s", "--json")
        if by_person:
            done = self.stage.alpha.cli(*arguments, given=body)
        else:
            self._use_order()
            done = self._run(*arguments, given=body)
        if done.code not in (0, WAITING):
            raise CommandFailed(f"{done.command}: exit {done.code}\n{done.err}")
        waited = done.json()
        self._keep(waited["answers"])
        brief = _brief(name, body, done, waited["messages"][0])
        return brief, self.answer_of(brief)

    def send(self, name: str, body: bytes, to: str = WORKER, *options: str, cwd: Path | None = None) -> Brief:
        """Send it and do not wait. What became of it is in the brief: 0, 5 (unknown) or 8 (no broker)."""
        self._use_order()
        done = self._run("send", to, "-", "--json", *options, given=body, cwd=cwd)
        if done.code not in (0, UNKNOWN, NO_BROKER) or not done.out:
            raise CommandFailed(f"{done.command}: exit {done.code}\n{done.err}")
        return _brief(name, body, done, done.json()["messages"][0])

    def send_again(self, brief: Brief) -> Brief:
        """The same message once more, for one that failed or is unknown; settled meanwhile, it is left as it is."""
        done = self._run("send", "--retry", brief.msg_id, "-", "--json", given=brief.body)
        if done.code == 0 or done.out:
            return _brief(brief.name, brief.body, done, done.json()["messages"][0])
        if done.code not in (2, NO_BROKER):
            raise CommandFailed(f"{done.command}: exit {done.code}\n{done.err}")
        return brief if done.code == NO_BROKER else dataclasses.replace(brief, code=0)

    def broadcast(self, name: str, body: bytes, to: Iterable[str], limit_s: float) -> tuple[str, list[Brief]]:
        """Send to everybody and wait for the answers: the outcome in a sentence, and a brief for each of `to`."""
        self._use_order()
        options = ("--wait", "--timeout", f"{limit_s:g}s", "--json")
        done = self._run("broadcast", "-", *options, given=body)
        if done.code != 0:
            raise CommandFailed(f"{done.command}: exit {done.code}\n{done.err}")
        waited = done.json()
        self._keep(waited["answers"])
        briefs = [_brief(name, body, done, view) for view in waited["messages"]]
        heads = [view["sentence"] for view in waited["messages"] if view["is_head"]]
        return " ".join(heads), [brief for brief in briefs if brief.to in to]

    def spawn(self, body: bytes, *arguments: str) -> Brief:
        """Have an agent started, and wait until it is ready; its first brief."""
        self._use_order()
        self.call("spawn", *arguments, "-", given=body)
        rows = self.call("inbox", "--sent", "--all", "--json").json()["messages"]
        sent = next((row for row in rows if row["kind"] == "SEND" and row["recipient"] == CODER), None)
        if sent is None:
            raise StoryFailed(f"no brief went out to {CODER}")
        return Brief(
            "its first brief", body, CODER, sent["msg_id"], sent["trace_id"], 0, sent["state"], sent["sentence"]
        )

    def collect(self, briefs: Iterable[Brief], limit_s: float) -> dict[str, Answer]:
        """Fetch mail until every brief is answered; answers by the id of their brief. Raises `StoryFailed`."""
        wanted = {(brief.msg_id, brief.to) for brief in briefs}
        deadline = time.monotonic() + limit_s
        with self.stage.narrator.progress(f"{len(wanted)} answers"):
            while (left := deadline - time.monotonic()) > 0 and not wanted <= self._answers.keys():
                wait = f"{min(left, TAKE_S):.1f}s"
                done = self._run("inbox", "--take", "--wait", wait, "--json")
                if done.code not in (0, WAITING):
                    raise CommandFailed(f"{done.command}: exit {done.code}\n{done.err}")
                self._keep(done.json()["messages"])
        missing = sorted(msg_id for msg_id, _ in wanted - self._answers.keys())
        if missing:
            raise StoryFailed("no answer to " + ", ".join(f"{short_id(m)}: {self.fate(m)}" for m in missing))
        return {msg_id: self._answers[msg_id, to] for msg_id, to in wanted}

    def answer_of(self, brief: Brief) -> Answer | None:
        """What came back so far."""
        return self._answers.get((brief.msg_id, brief.to))

    def show(self, msg_id: str) -> dict[str, Any]:
        """A message as alpha knows it."""
        view: dict[str, Any] = self.call("show", msg_id, "--json").json()["messages"][0]
        return view

    def fate(self, msg_id: str) -> str:
        """Where a message is, in the words of `fleettrio show`."""
        done = self.stage.alpha.cli("show", msg_id, "--json")
        return "; ".join(view["sentence"] for view in done.json()["messages"]) if done.code == 0 else done.err

    def call(self, *arguments: str, given: bytes = b"") -> Outcome:
        """A command of the lead that must end well."""
        return self.stage.alpha.call(*arguments, token=self.stage.lead_token, given=given)

    def _run(self, *arguments: str, given: bytes = b"", cwd: Path | None = None) -> Outcome:
        return self.stage.alpha.cli(*arguments, token=self.stage.lead_token, given=given, cwd=cwd)

    def _use_order(self) -> None:
        with self._turn:
            if not self._left:
                self.told("Go on, please.")
            self._left -= 1

    def _keep(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            body = base64.b64decode(message["body"])
            answer = Answer(message["short"], message["sender"], message["re"] or "", body)
            before = self._answers.setdefault((answer.re, answer.sender), answer)
            if answer.re and before.short != answer.short:
                raise StoryFailed(f"{short_id(answer.re)} was answered twice: {before.short} and {answer.short}")

    # What it compares

    def check(self, brief: Brief, answer: Answer | None) -> int:
        """The worker's number, if the answer is what the worker really did with this brief. Raises `StoryFailed`."""
        if answer is None:
            raise StoryFailed(f"{brief.short} ({brief.name}): no answer; {self.fate(brief.msg_id)}")
        read = self.stage.logs[brief.to].find("read", brief.short)
        said = _answer.search(answer.body.decode("utf-8", "replace"))
        if read is None or said is None:
            raise StoryFailed(f"{brief.short} ({brief.name}): the worker never read it, yet this came: {answer.body!r}")
        wanted = hashlib.sha256(brief.body).hexdigest()
        facts = {
            "answered by": (answer.sender, brief.to),
            "answer to": (answer.re, brief.msg_id),
            "bytes read": (read["size"], len(brief.body)),
            "SHA-256 in the worker's log": (read["sha256"], wanted),
            "SHA-256 in the answer": (said["sha256"], wanted),
            "SHA-256 of the text in the frame": (read["shown"], hashlib.sha256(text_of(brief.body)).hexdigest()),
            "number": (int(said["number"]), read["number"]),
        }
        wrong = [f"{what}: {got}, should be {want}" for what, (got, want) in facts.items() if got != want]
        if wrong:
            raise StoryFailed("\n".join([f"{brief.short} ({brief.name}):", *wrong]))
        return int(said["number"])

    def check_once(self) -> int:
        """How many turns the worker ever took, if none of them was a message that it had had before."""
        ids = [event["id"] for event in self.stage.worker.events("turn")]
        twice = sorted({short for short in ids if ids.count(short) > 1})
        if twice:
            raise StoryFailed(f"typed twice into {WORKER}: {', '.join(twice)}")
        return len(ids)


def text_of(body: bytes) -> bytes:
    """What an agent is shown of a body."""
    return clean(body).encode()


def _brief(name: str, body: bytes, done: Outcome, view: dict[str, Any]) -> Brief:
    return Brief(
        name, body, view["recipient"], view["msg_id"], view["trace_id"], done.code, view["state"], view["sentence"]
    )
