"""`send --wait` and `ask`: stay until the answer, or the receipt, of what was just sent.

Rules: the answer is confirmed only once it has left this process, so an answer that nobody saw is offered again.
Stopping (Ctrl-C, --timeout) stops the waiting and never the message; a question is taken back. Only answers go to
standard output: in a frame where an agent waits, else as they are. A question that is asked of the waiting one
meanwhile is printed beside them, with the command that answers it, and the waiting goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable, Sequence

from fleettrio.api.schema import Confirm, InboxMessage, MessageView, Wait, Waited
from fleettrio.clients.cli.body import emit, flush, marked, readable
from fleettrio.clients.cli.progress import StateLine
from fleettrio.clients.cli.table import at_time, note, print_error, print_json, say, span
from fleettrio.clients.client import Client, ConnectionLost
from fleettrio.errors import EXPIRED, FAILED, NO_BROKER, UNKNOWN, USAGE, WAITING
from fleettrio.ids import short_id
from fleettrio.local.sanitise import one_line

__all__ = ("Waiting", "describe", "wait_for", "worst_exit", "worst_of")

_CALL_S = 50.0
"""The longest a `wait` call may take by contract."""
_LIVE_CALL_S = 3.0
"""So often the state line is made new on a terminal."""
_WORST_FIRST = (FAILED, NO_BROKER, USAGE, EXPIRED, UNKNOWN)
_ORDERS = frozenset({"SPAWN", "STOP"})
"""What is asked of a host. It has no answer, and its end is more than one word."""


def worst_exit(messages: Iterable[MessageView]) -> int:
    """The exit code for several messages: that of the worst end; waiting is not an end."""
    return worst_of({message.exit_code for message in messages})


def worst_of(codes: Collection[int]) -> int:
    return next((code for code in _WORST_FIRST if code in codes), 0)


def describe(message: MessageView) -> str:
    """One line about a message: recipient and state. A broadcast counts its members, an order says what was done."""
    if message.is_head or message.kind in _ORDERS:
        return f"{one_line(message.recipient, 40)}: {one_line(message.sentence, 300)}"
    reason = f"({message.reason})" if message.reason else ""
    return f"{one_line(message.recipient, 40)}  {one_line(message.state + reason, 28)}"


def wait_for(client: Client, sent: Sequence[MessageView], until: str, timeout_s: float, *, as_json: bool) -> int:
    """Wait for what was `sent`, print what comes, and return the exit code: 6 when something is still to come."""
    wait = Waiting(client, sent, until, as_json=as_json)
    try:
        wait.run(time.monotonic() + timeout_s)
    except KeyboardInterrupt:
        wait.line.clear()
        note("stopped waiting; what was sent goes on")
    except ConnectionLost as problem:
        wait.line.clear()
        print_error(str(problem), problem.hint)
        wait.say_how_to_look_later()
        return problem.exit_code
    finally:
        wait.line.clear()
    return wait.finish()


_Key = tuple[str, str]


def _key(view: MessageView) -> _Key:
    """A message to one recipient."""
    return view.msg_id, view.gid


class Waiting:
    """One command that waits for what it sent; `finish` says how it ended."""

    def __init__(self, client: Client, sent: Sequence[MessageView], until: str, *, as_json: bool) -> None:
        self.line = StateLine()
        self._client = client
        self._until = until
        self._as_json = as_json
        self._views = {_key(view): view for view in sent}
        self._open = {_key(view) for view in sent if not view.is_head and not worst_exit([view])}
        self._told = {_key(view): describe(view) for view in sent}
        """What stands above already."""
        self._answered: set[_Key] = set()
        self._given: set[_Key] = set()
        """Those whose answer came to this command."""
        self._answers: list[InboxMessage] = []
        self._cursor = 0
        self._began = time.monotonic()

    def run(self, deadline: float) -> None:
        """Call `wait` again and again until nothing is open or the time is over."""
        step = _LIVE_CALL_S if self.line.is_live else _CALL_S
        while self._open and (left := deadline - time.monotonic()) > 0:
            self._show_state()
            limit = min(step, left)
            ids = sorted({msg_id for msg_id, _ in self._open})
            asked = Wait(ids, self._until, limit, framed=not self._as_json)
            waited: Waited = self._client.call("wait", asked, limit + 25.0)
            before = len(self._open)
            self._take(waited)
            if waited.done and (self._until == "delivered" or len(self._open) == before):
                self._open.clear()

    def _take(self, waited: Waited) -> None:
        if waited.questions:
            self._show_questions(waited)
        self._views.update((_key(view), view) for view in waited.messages)
        if waited.answers:
            self.line.clear()
            self._cursor = waited.cursor
            self._answers.extend(waited.answers)
            if not self._as_json:
                for answer in waited.answers:
                    self._print_answer(answer)
                self._confirm()
        self._given |= {key for answer in waited.answers for key in self._views if self._is_answer(answer, key)}
        self._answered |= self._given | {_key(view) for view in waited.messages if view.answered_by}
        self._open -= self._answered
        # Unknown and unconfirmed may still turn into an answer: only the daemon ends a wait for those.
        self._open -= {_key(view) for view in waited.messages if worst_exit([view]) not in (0, UNKNOWN)}

    def _show_questions(self, waited: Waited) -> None:
        """On standard error: an answer is still waited for, and standard output is its own."""
        self.line.clear()
        for question in waited.questions:
            who, until = one_line(question.sender, 140), at_time(question.expires_at)
            note(f"{who} asks ({question.short}), and waits until {until}:")
            print(question.framed or marked(question.body), file=sys.stderr)
            note(f"answer: fleettrio answer {question.short} 'TEXT'")
        sys.stderr.flush()
        self._client.call("confirm", Confirm(waited.cursor))

    def _is_answer(self, answer: InboxMessage, key: _Key) -> bool:
        """Whether it answers what went to that recipient: a broadcast has one id for all of them."""
        return answer.re == key[0] and (not self._views[key].to or answer.sender_gid == key[1])

    def _print_answer(self, answer: InboxMessage) -> None:
        after = span(time.monotonic() - self._began)
        again = ", may be a repeat" if answer.repeat else ""
        last_words = ", its last words of that turn" if answer.auto else ""
        sys.stdout.flush()
        note(f"{answer.sender} answered after {after} ({answer.short}{last_words}{again}):")
        if answer.framed:
            print(answer.framed)
        elif len(self._views) == 1:
            emit(answer.body)
            return
        else:  # several answers on one output: each under its author
            print(f"── {one_line(answer.sender, 140)} ({answer.short})")
            print(marked(answer.body))
        if len(self._views) > 1:
            print()

    def _confirm(self) -> None:
        """Tell the daemon that the answers have left this process."""
        flush()
        self._client.call("confirm", Confirm(self._cursor))

    def _show_state(self) -> None:
        view = self._views[min(self._open)]
        more = f" (and {len(self._open) - 1} more)" if len(self._open) > 1 else ""
        self.line.show(f"{span(time.monotonic() - self._began)}  {view.recipient}{more}: {view.sentence}")

    def finish(self) -> int:
        """Say how it ended; the exit code."""
        views = list(self._views.values())
        if self._as_json:
            print_json(Waited(not self._open, views, readable(self._answers), self._cursor))
            if self._answers:
                self._confirm()
        failed = [view for view in views if _key(view) not in self._answered and worst_exit([view])]
        for view in views:
            if view.to and not view.is_head:
                self._say_member(view)
            elif view in failed:
                print_error(f"{view.short} to {view.recipient}: {view.sentence}", f"fleettrio show {view.short}")
            elif _key(view) in self._open:
                note(f"still waiting: {view.short} to {view.recipient}: {view.sentence}")
            elif view.answered_by and self._until == "answer" and _key(view) not in self._given:
                note(f"{view.recipient} answered, not to this command: fleettrio show {short_id(view.answered_by)}")
            elif self._until == "delivered" and not self._as_json:
                say(f"{view.short}  {describe(view)}", indent=" " * 10)
            elif view.is_head and not self._as_json and self._told[_key(view)] != describe(view):
                note(f"{view.short}  {describe(view)}")
        if self._open:
            self.say_how_to_look_later()
        return worst_exit(failed) or (WAITING if self._open else 0)

    def _say_member(self, view: MessageView) -> None:
        """One line below the broadcast; what did not arrive says why."""
        if self._as_json:
            return
        line = f"  {describe(view)}"
        if self._until == "delivered":
            say(line, indent=" " * 10)
        elif _key(view) not in self._answered:
            note(line)

    def say_how_to_look_later(self) -> None:
        for view in {view.msg_id: view for key, view in self._views.items() if key in self._open}.values():
            hint = f"hint: fleettrio show {view.short}"
            if view.kind not in _ORDERS:
                sender = "" if view.to else f" --from {view.recipient}"
                hint += f"; the answer later: fleettrio inbox --take{sender}"
            note(hint)
