"""A question, on the host that asks and on the host that is asked: beta's worker asks alpha's lead."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.calls import Offered
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.ids import MsgId
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Parsed
from tests.core.asks import again, answer_by_hand, answering, asking, listening, notice, waiting
from tests.core.builders import Host, World, pair
from tests.core.messages import outcome
from tests.core.tables.walk import Table

__all__ = ("ASKED", "ASKER")

LIFETIME_S = 600.0


@dataclasses.dataclass(slots=True)
class _Case:
    world: World
    alpha: Host
    """Where the lead is asked."""
    beta: Host
    """Where the worker asks."""
    question: MsgId
    parsed: Parsed
    call: int = 0
    """The asker's, or the listener's."""

    @property
    def sent(self) -> SentRow:
        key = (self.question, self.alpha.gid("lead"))
        return self.beta.gateway.outbox.get(key) or self.beta.outbox[key]

    @property
    def row(self) -> InboxRow | None:
        return self.alpha.ledger.get((self.question, self.alpha.gid("lead")))


def _asks() -> _Case:
    """The worker asks and waits in a call; the question is on its way."""
    world, alpha, beta = pair()
    question = asking(beta, expires_in_ms=int(LIFETIME_S * 1000))
    (publish,) = beta.taken()
    beta.hand(publish)
    beta.verdict(publish)
    case = _Case(world, alpha, beta, question, beta.signed(publish))
    case.call = waiting(beta, question)
    return case


def _way(*steps: Callable[[_Case], object]) -> Callable[[], _Case]:
    def reach() -> _Case:
        case = _asks()
        for step in steps:
            step(case)
        case.alpha.taken()
        case.beta.taken()
        return case

    return reach


# --- the host that asks


def _sent_state(case: _Case) -> str:
    row = case.sent
    words = f"{row.state}({row.reason})" if row.reason else str(row.state)
    return ("waits" if words in ("confirmed", "unknown") else words) + (", answered" if row.answered_by else "")


def _answer(case: _Case) -> None:
    case.beta.get(answer_by_hand(case.alpha, "lead", case.beta.gid("worker"), case.question))


def _no_waiter(case: _Case) -> None:
    case.beta.get(notice(Kind.NO_WAITER, case.alpha, case.beta, case.question, case.alpha.gid("lead")))


def _call_again(case: _Case) -> None:
    again(case.beta, "worker", case.call, "asker")


def _silent(case: _Case) -> None:
    """Its call is told "nothing yet, call again", and no other comes."""
    _call_again(case)
    case.beta.wait(91)


def _client_dies(case: _Case) -> None:
    case.beta.run(ask.CallEnded(case.call, "asker", gone=True))


def _cancels(case: _Case) -> None:
    case.beta.cancel(case.question)


def _time_over(case: _Case) -> None:
    case.beta.wait(LIFETIME_S + 1)


def _lost(case: _Case) -> None:
    """A new session, and the host asked has never seen the question."""
    case.beta.run(ev.SessionClosed(1, "gone"), ev.SessionOpened(2))
    row = case.sent
    case.beta.get(outcome(case.alpha, case.beta, (row.msg_id, row.gid, row.leaf, "absent")))


def _asker_restarts(case: _Case) -> None:
    case.beta.start()


ASKER = Table(
    "asker",
    states={
        "waits": [_way()],
        "answered": [_way(_answer)],
        "failed(no-waiter)": [_way(_no_waiter)],
        "expired": [_way(_time_over)],
        "failed(abandoned)": [_way(_cancels)],
        "failed(lost-with-broker)": [_way(_lost)],
    },
    events={
        "ANSWER": _answer,
        "NO_WAITER": _no_waiter,
        "`expiresAt`": _time_over,
        "its client is told to call again": _call_again,
        "… and does not for 90 s": _silent,
        "its client dies": _client_dies,
        "Ctrl-C, or `cancel`": _cancels,
        "the link was lost, and the other host has never seen it": _lost,
        "the daemon starts again": _asker_restarts,
    },
    say=_sent_state,
)

# --- the host that is asked


def _row_state(case: _Case) -> str:
    row = case.row
    if row is None:
        return "none"
    reason = f"({row.reason})" if row.reason else ""
    return f"{row.state}{reason}" + (", repeat" if row.repeat and row.state.is_open else "")


def _comes(case: _Case) -> None:
    case.alpha.get(case.parsed)


def _listens(case: _Case) -> None:
    case.call = listening(case.alpha)


def _told_again(case: _Case) -> None:
    """Somebody listened, and is on the way back."""
    again(case.alpha, "lead", listening(case.alpha), "ear")


def _listener_dies(case: _Case) -> None:
    case.alpha.run(ask.CallEnded(case.call, "ear", gone=True))


def _answers(case: _Case) -> None:
    if case.row is not None:
        answering(case.alpha, case.question)


def _abandoned(case: _Case) -> None:
    case.alpha.get(notice(Kind.ABANDONED, case.beta, case.alpha, case.question, case.alpha.gid("lead")))


def _has_it(case: _Case) -> None:
    """The client says that the question is there: what ends it from now on is its answer."""
    result = case.alpha.results[case.call]
    assert isinstance(result, Offered)
    case.alpha.confirm(result.cursor, "ear")


def _asked_too_late(case: _Case) -> None:
    """Its time is over before anything else happens."""
    case.world.clock.advance(LIFETIME_S + 1)
    case.alpha.expire()


def _nobody_back(case: _Case) -> None:
    case.alpha.wait(91)


def _restarts(case: _Case) -> None:
    case.alpha.start()


_NOT_OFFERED = ("none, nobody listens", "none, somebody listens", "waiting", "failed(no-waiter)")

ASKED = Table(
    "asked",
    states={
        "none, nobody listens": [_way()],
        "none, somebody listens": [_way(_listens)],
        "waiting": [_way(_told_again, _comes)],
        "offered": [_way(_listens, _comes)],
        "offered, its client has it": [_way(_listens, _comes, _has_it)],
        "drained": [_way(_listens, _comes, _has_it, _answers)],
        "failed(no-waiter)": [_way(_comes)],
        "recalled(abandoned)": [_way(_listens, _comes, _abandoned)],
        "expired": [_way(_listens, _comes, _asked_too_late)],
    },
    events={
        "ASK": _comes,
        "its client fetches, or waits in a call": _listens,
        "its client says that it has it": _has_it,
        "90 s without a call": _nobody_back,
        "its client dies": _listener_dies,
        "`answer`": _answers,
        "ABANDONED": _abandoned,
        "`expiresAt`": _asked_too_late,
        "the daemon starts again": _restarts,
    },
    say=_row_state,
    impossible=frozenset(
        {
            *(("`answer`", state) for state in ("none, nobody listens", "none, somebody listens")),
            *(("its client says that it has it", state) for state in _NOT_OFFERED),
        }
    ),
)
