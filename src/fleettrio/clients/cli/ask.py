"""`ask` and `answer`: a question to somebody who listens now; its answer comes out of the command that asked."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType

import click

from fleettrio.api.schema import MessageView, SendResult, Wait, Waited
from fleettrio.api.schema.asks import Answer, Ask
from fleettrio.clients.cli.body import DURATION, read_body
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.table import note, print_error, print_json
from fleettrio.clients.cli.waiting import Waiting, worst_exit
from fleettrio.clients.client import Client, ConnectionLost
from fleettrio.errors import STOPPED

__all__ = ("answer", "ask")

_FILE = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)
_SLACK_S = 5.0
"""Beyond the time of a question: its end is said by the daemon."""
_RECEIPT_S = 4.0
"""So long an answer waits for the word that it was in time."""


class _Question(Waiting):
    """Waits for the answer to a question, which does not outlive this command."""

    def __init__(self, client: Client, asked: Sequence[MessageView], *, as_json: bool) -> None:
        super().__init__(client, asked, "answer", as_json=as_json)

    def to_its_end(self, timeout_s: float) -> int:
        """Wait, print the answer, and return the exit code. The daemon ends the question when its time is over."""
        try:
            self.run(time.monotonic() + timeout_s + _SLACK_S)
        except KeyboardInterrupt:
            self.line.clear()
            self._client.close()
            note("stopped: the question is taken back")
            return STOPPED
        except ConnectionLost as problem:
            self.line.clear()
            print_error(f"the question is lost: {problem}", "ask again when the daemon is there")
            return problem.exit_code
        finally:
            self.line.clear()
        return self.finish()


@click.command(
    epilog="\b\nExamples:\n"
    "  fleettrio ask lead@alpha 'which port does the broker use?'\n"
    "  fleettrio ask lead 'may I drop the table?' --timeout 2m\n"
    "  git diff | fleettrio ask lead@alpha -"
)
@click.argument("to", metavar="NAME")
@click.argument("body", required=False, metavar="[QUESTION|-]")
@click.option("--file", type=_FILE, help="Take the question from this file, byte for byte.")
@click.option("--timeout", type=DURATION, default="10m", show_default=True, help="How long the answer is waited for.")
@click.option("--no-wait", is_flag=True, help="Do not stay: the answer is put into you while your turn goes on.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def ask(to: str, body: str | None, file: str | None, timeout: float, no_wait: bool, as_json: bool) -> int:
    """Ask somebody who listens now, and stay until the answer is there.

    The one who is asked sees the question in a `send --wait` or an `inbox --take --wait` that goes on, and answers it
    with `answer`. If nobody listens there, this says so at once (exit 3); a message waits, a question does not. Ctrl-C
    takes the question back. Only the answer goes to standard output.
    """
    question = read_body(body, file)
    signal.signal(signal.SIGTERM, _stop)
    with connect() as client:
        asked: Waited = client.call("ask", Ask(to=to, body=question, timeout_s=timeout, wait=not no_wait, limit_s=0.0))
        if not no_wait:
            note(f"{asked.messages[0].short} to {asked.messages[0].recipient}")
            return _Question(client, asked.messages, as_json=as_json).to_its_end(timeout)
    if as_json:
        print_json(asked)
    return _say(asked.messages[0], as_json=as_json)


def _stop(_number: int, _frame: FrameType | None) -> None:
    """Ended by a program, as by Ctrl-C."""
    raise KeyboardInterrupt


@click.command(
    epilog="\b\nExamples:\n  fleettrio answer 9f31c2d4 '4711, and keep it'\n  ./lookup.sh | fleettrio answer 9f31c2d4 -"
)
@click.argument("message_id", metavar="ID")
@click.argument("body", required=False, metavar="[ANSWER|-]")
@click.option("--file", type=_FILE, help="Take the answer from this file, byte for byte.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def answer(message_id: str, body: str | None, file: str | None, as_json: bool) -> int:
    """Answer a question that was asked of you.

    ID is the question's. Exit code 3: too late, whoever asked does not wait any more; your answer was dropped.
    """
    text = read_body(body, file)
    with connect() as client:
        given: SendResult = client.call("answer", Answer(message_id, text))
        view = given.messages[0]
        if not worst_exit([view]):
            told: Waited = client.call("wait", Wait([view.msg_id], "delivered", _RECEIPT_S))
            view = told.messages[0]
    if as_json:
        print_json(SendResult(given.trace_id, [view]))
    return _say(view, as_json=as_json)


def _say(view: MessageView, *, as_json: bool) -> int:
    code = worst_exit([view])
    if code:
        print_error(f"{view.short} to {view.recipient}: {view.sentence}", f"fleettrio show {view.short}")
    elif not as_json:
        print(f"{view.short}  {view.sentence}")
        sys.stdout.flush()
    return code
