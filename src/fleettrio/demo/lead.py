"""The lead's side of the stories: what it sends, what it gets back, and whether that is what the worker really did.

A brief counts as answered only when four things agree: what was sent, the worker's own log (SHA-256 of the stored body,
and of the text in its frame), the answer that came back, and the number that the worker drew.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
import time
from collections.abc import Iterable
from typing import Any

from fleettrio.demo.hosts import CommandFailed
from fleettrio.demo.stage import WORKER, Stage
from fleettrio.errors import FleetTrioError
from fleettrio.ids import short_id
from fleettrio.local.sanitise import clean
from fleettrio.testing.hosts import Outcome

__all__ = ("Answer", "Brief", "Lead", "StoryFailed", "text_of")

STILL_WAITING, UNKNOWN, NO_BROKER = 6, 5, 8
TAKE_S = 20.0

_answer = re.compile(r"sha256 (?P<sha256>[0-9a-f]{64})\nnumber (?P<number>\d+)\n")


class StoryFailed(FleetTrioError):
    """What came of a story is not what was promised."""


@dataclasses.dataclass(frozen=True, slots=True)
class Brief:
    """What the lead sent, and how its command ended."""

    name: str
    body: bytes
    msg_id: str
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
        self._answers: dict[str, Answer] = {}
        """By the id of what they answer."""

    # What it does

    def ask(self, name: str, body: bytes, limit_s: float = 40.0) -> tuple[Brief, Answer | None]:
        """Send to the worker and wait for its answer; None when the time was over first."""
        done = self._run("send", WORKER, "-", "--wait", "--timeout", f"{limit_s:g}s", "--json", given=body)
        if done.code not in (0, STILL_WAITING):
            raise CommandFailed(f"{done.command}: exit {done.code}\n{done.err}")
        waited = done.json()
        self._keep(waited["answers"])
        brief = _brief(name, body, done, waited["messages"][0])
        return brief, self._answers.get(brief.msg_id)

    def send(self, name: str, body: bytes) -> Brief:
        """Send to the worker and do not wait. What became of it is in the brief: 0, 5 (unknown) or 8 (no broker)."""
        done = self._run("send", WORKER, "-", "--json", given=body)
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

    def collect(self, briefs: Iterable[Brief], limit_s: float) -> dict[str, Answer]:
        """Fetch mail until every brief is answered; answers by the id of their brief. Raises `StoryFailed`."""
        open_ids = {brief.msg_id for brief in briefs}
        deadline = time.monotonic() + limit_s
        with self.stage.narrator.progress(f"{len(open_ids)} answers"):
            while (left := deadline - time.monotonic()) > 0 and not open_ids <= self._answers.keys():
                wait = f"{min(left, TAKE_S):.1f}s"
                done = self._run("inbox", "--take", "--from", WORKER, "--wait", wait, "--json")
                if done.code not in (0, STILL_WAITING):
                    raise CommandFailed(f"{done.command}: exit {done.code}\n{done.err}")
                self._keep(done.json()["messages"])
        missing = open_ids - self._answers.keys()
        if missing:
            raise StoryFailed("no answer to " + ", ".join(f"{short_id(m)}: {self.fate(m)}" for m in sorted(missing)))
        return {msg_id: self._answers[msg_id] for msg_id in open_ids}

    def fate(self, msg_id: str) -> str:
        """Where a message is, in the words of `fleettrio show`."""
        done = self._run("show", msg_id, "--json")
        return "; ".join(view["sentence"] for view in done.json()["messages"]) if done.code == 0 else done.err

    def _run(self, *arguments: str, given: bytes = b"") -> Outcome:
        return self.stage.alpha.cli(*arguments, token=self.stage.lead_token, given=given)

    def _keep(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            body = base64.b64decode(message["body"])
            answer = Answer(message["short"], message["sender"], message["re"] or "", body)
            before = self._answers.setdefault(answer.re, answer)
            if before.short != answer.short:
                raise StoryFailed(f"{short_id(answer.re)} was answered twice: {before.short} and {answer.short}")

    # What it compares

    def check(self, brief: Brief, answer: Answer | None) -> int:
        """The worker's number, if the answer is what the worker really did with this brief. Raises `StoryFailed`."""
        if answer is None:
            raise StoryFailed(f"{brief.short} ({brief.name}): no answer; {self.fate(brief.msg_id)}")
        read = self.stage.pane.find("read", brief.short)
        said = _answer.search(answer.body.decode("utf-8", "replace"))
        if read is None or said is None:
            raise StoryFailed(f"{brief.short} ({brief.name}): the worker never read it, yet this came: {answer.body!r}")
        wanted = hashlib.sha256(brief.body).hexdigest()
        facts = {
            "answered by": (answer.sender, WORKER),
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
        ids = [event["id"] for event in self.stage.pane.events("turn")]
        twice = sorted({short for short in ids if ids.count(short) > 1})
        if twice:
            raise StoryFailed(f"typed twice into {WORKER}: {', '.join(twice)}")
        return len(ids)


def text_of(body: bytes) -> bytes:
    """What an agent is shown of a body."""
    return clean(body).encode()


def _brief(name: str, body: bytes, done: Outcome, view: dict[str, Any]) -> Brief:
    return Brief(name, body, view["msg_id"], done.code, view["state"], view["sentence"])
