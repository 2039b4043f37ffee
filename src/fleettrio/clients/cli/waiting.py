"""`send --wait`: stay until the answer, or the receipt, of what was just sent.

Rules: the answer is confirmed only once it has left this process, so an answer that nobody saw is offered again.
Stopping (Ctrl-C, --timeout) stops the waiting and never the message. Only bodies go to standard output.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

from fleettrio.api.schema import Confirm, InboxMessage, MessageView, Wait, Waited
from fleettrio.clients.cli.body import emit, flush
from fleettrio.clients.cli.progress import StateLine
from fleettrio.clients.cli.table import note, print_error, print_json, span
from fleettrio.clients.client import Client, ConnectionLost
from fleettrio.local.sanitise import one_line

__all__ = ("describe", "wait_for", "worst_exit")

STILL_WAITING = 6
_UNKNOWN = 5
_CALL_S = 50.0
"""The longest a `wait` call may take by contract."""
_LIVE_CALL_S = 3.0
"""So often the state line is made new on a terminal."""
_WORST_FIRST = (3, 8, 4, 5)


def worst_exit(messages: Iterable[MessageView]) -> int:
    """The exit code for several messages: that of the worst end; waiting is not an end."""
    codes = {message.exit_code for message in messages}
    return next((code for code in _WORST_FIRST if code in codes), 0)


def describe(message: MessageView) -> str:
    """One line about a message: recipient and state."""
    reason = f"({message.reason})" if message.reason else ""
    return f"{one_line(message.recipient, 40)}  {one_line(message.state + reason, 28)}"


def wait_for(client: Client, sent: Sequence[MessageView], until: str, timeout_s: float, *, as_json: bool) -> int:
    """Wait for what was `sent`, print what comes, and return the exit code: 6 when something is still to come."""
    wait = _Waiting(client, sent, until, as_json=as_json)
    try:
        wait.run(time.monotonic() + timeout_s)
    except KeyboardInterrupt:
        wait.line.clear()
        note("stopped waiting; the message goes on")
    except ConnectionLost as problem:
        wait.line.clear()
        print_error(str(problem), problem.hint)
        wait.say_how_to_look_later()
        return problem.exit_code
    finally:
        wait.line.clear()
    return wait.finish()


class _Waiting:
    def __init__(self, client: Client, sent: Sequence[MessageView], until: str, *, as_json: bool) -> None:
        self.line = StateLine()
        self._client = client
        self._until = until
        self._as_json = as_json
        self._views = {view.msg_id: view for view in sent}
        self._open = {view.msg_id for view in sent if not worst_exit([view])}
        self._answered: set[str] = set()
        self._answers: list[InboxMessage] = []
        self._cursor = 0
        self._began = time.monotonic()

    def run(self, deadline: float) -> None:
        """Call `wait` again and again until nothing is open or the time is over."""
        step = _LIVE_CALL_S if self.line.is_live else _CALL_S
        while self._open and (left := deadline - time.monotonic()) > 0:
            self._show_state()
            limit = min(step, left)
            waited: Waited = self._client.call("wait", Wait(sorted(self._open), self._until, limit), limit + 25.0)
            before = len(self._open)
            self._take(waited)
            if waited.done and (self._until == "delivered" or len(self._open) == before):
                self._open.clear()

    def _take(self, waited: Waited) -> None:
        self._views.update((view.msg_id, view) for view in waited.messages)
        if waited.answers:
            self.line.clear()
            self._cursor = waited.cursor
            self._answers.extend(waited.answers)
            if not self._as_json:
                for answer in waited.answers:
                    self._print_answer(answer)
                self._confirm()
        self._answered |= {answer.re for answer in waited.answers if answer.re is not None}
        self._answered |= {view.msg_id for view in waited.messages if view.answered_by}
        self._open -= self._answered
        # Unknown and unconfirmed may still turn into an answer: only the daemon ends a wait for those.
        self._open -= {view.msg_id for view in waited.messages if worst_exit([view]) not in (0, _UNKNOWN)}

    def _print_answer(self, answer: InboxMessage) -> None:
        after = span(time.monotonic() - self._began)
        again = ", may be a repeat" if answer.repeat else ""
        last_words = ", its last words of that turn" if answer.auto else ""
        sys.stdout.flush()
        note(f"{answer.sender} answered after {after} ({answer.short}{last_words}{again}):")
        emit(answer.body)

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
            print_json(Waited(not self._open, views, self._answers, self._cursor))
            if self._answers:
                self._confirm()
        failed = [view for view in views if view.msg_id not in self._answered and worst_exit([view])]
        for view in views:
            if view in failed:
                print_error(f"{view.short} to {view.recipient}: {view.sentence}", f"fleettrio show {view.short}")
            elif view.msg_id in self._open:
                note(f"still waiting: {view.short} to {view.recipient}: {view.sentence}")
            elif self._until == "delivered" and not self._as_json:
                print(f"{view.short}  {describe(view)}")
        if self._open:
            self.say_how_to_look_later()
        return worst_exit(failed) or (STILL_WAITING if self._open else 0)

    def say_how_to_look_later(self) -> None:
        for msg_id in sorted(self._open):
            view = self._views[msg_id]
            note(f"hint: fleettrio show {view.short}; the answer later: fleettrio inbox --take --from {view.recipient}")
