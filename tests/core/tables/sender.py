"""The sender's row: what one host knows of a message that went to another one, and by whose word."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.compose import message
from fleettrio.core.openrows import GRACE_MS
from fleettrio.core.rows import Key, SentRow
from fleettrio.ids import Gid, Leaf, MsgId
from fleettrio.wire.envelope import Kind
from tests.core.builders import TRACE, Host, fleet_of, pair
from tests.core.messages import failed, outcome
from tests.core.tables.walk import Table

__all__ = ("SENT",)

LIFETIME_S = 600.0
BODY = b"do it"


@dataclasses.dataclass(slots=True)
class _Case:
    alpha: Host
    """Its sender's host."""
    beta: Host
    """Where it goes."""
    gamma: Host
    """The reporter of dead letters."""
    publish: do.Publish

    @property
    def key(self) -> Key:
        return self.publish.sent[0].msg_id, self.publish.sent[0].gid

    @property
    def row(self) -> SentRow:
        return self.alpha.gateway.outbox.get(self.key) or self.alpha.outbox[self.key]

    @property
    def about(self) -> tuple[MsgId, Gid, Leaf]:
        return (*self.key, self.row.leaf)


def _say(case: _Case) -> str:
    row = case.row
    reason = row.reason.replace(" at beta", "").replace("no word from beta", "no word")
    words = f"{row.state}({reason})" if reason else str(row.state)
    words += ", recalling" if row.recalling else ""
    return words + (", answered" if row.answered_by else f", {row.answer}" if row.answer else "")


def _accepted() -> _Case:
    world, alpha, beta = pair()
    fleet = fleet_of(("alpha", "beta", "gamma"), reporters=("gamma",), rev=2)
    gamma = Host("gamma", world.clock, fleet)  # it only signs
    alpha.trust(fleet)
    alpha.taken()
    alpha.send("worker@beta", body=BODY, expires_in_ms=int(LIFETIME_S * 1000))
    (publish,) = alpha.taken()
    alpha.outbox.update({(row.msg_id, row.gid): row for row in publish.sent})  # on disk before a byte goes out
    return _Case(alpha, beta, gamma, publish)


def _way(*steps: Callable[[_Case], object]) -> Callable[[], _Case]:
    def reach() -> _Case:
        case = _accepted()
        for step in steps:
            step(case)
        case.alpha.taken()
        return case

    return reach


# --- the publish


def _handed(case: _Case) -> None:
    case.alpha.hand(case.publish)


def _not_handed(case: _Case) -> None:
    case.alpha.run(ev.PublishNotHanded(case.publish.id, "broker-blocked", ""))


def _verdict(verdict: str, case: _Case) -> None:
    case.alpha.verdict(case.publish, verdict)


def _link_lost(case: _Case) -> None:
    case.alpha.run(ev.SessionClosed(1, "gone"))


def _again(case: _Case) -> None:
    case.alpha.run(ask.RetryAsked(case.alpha.call(), case.row, BODY))


# --- words


def _told(state: str, case: _Case) -> None:
    case.alpha.get(outcome(case.beta, case.alpha, (*case.about, state)))


def _refused(case: _Case) -> None:
    case.alpha.get(failed(case.beta, case.alpha, *case.about, reason="refused: not-authorised at beta"))


def _reported(reason: str, case: _Case) -> None:
    case.alpha.get(failed(case.gamma, case.alpha, *case.about, reason=reason))


def _replied(case: _Case) -> None:
    envelope = message(
        case.beta.gateway.settings.me,
        Kind.REPLY,
        case.beta.entities[case.beta.gid("worker")],
        case.alpha.gid("human"),
        msg_id=case.beta.new_id(),
        trace_id=TRACE,
        expires_in_ms=60_000,
        now=case.beta.clock.now,
        re=case.key[0],
        depth=1,
    )
    case.alpha.get(case.beta.sign(envelope, b"done"))


# --- time, and the person


def _bound(case: _Case) -> None:
    case.alpha.wait(LIFETIME_S + GRACE_MS / 1000 + 1)


def _cancelled(case: _Case) -> None:
    case.alpha.cancel(case.key[0])


def _restarted(case: _Case) -> None:
    case.alpha.start()


_confirmed, _unroutable, _nacked, _late = (
    functools.partial(_verdict, word) for word in ("confirmed", "unroutable", "nacked", "outcome-unknown")
)
_WORDS = "held unconfirmed injected drained expired recalled superseded failed ended waiting absent"
_word = {word: functools.partial(_told, word) for word in re.findall(r"\w+", _WORDS)}
_dead = functools.partial(_reported, "overflow")
_out = (_handed, _confirmed)

SENT = Table(
    "sender",
    states={
        "accepted": [_way()],
        "written": [_way(_handed)],
        "outcome-unknown": [_way(_handed, _late)],
        "confirmed": [_way(*_out)],
        "unknown": [_way(*_out, _bound)],
        "held": [_way(*_out, _word["held"])],
        "unconfirmed": [_way(*_out, _word["unconfirmed"])],
        "injected": [_way(*_out, _word["injected"])],
        "drained": [_way(*_out, _word["drained"])],
        "expired recalled superseded failed": [
            _way(*_out, _word[word]) for word in ("expired", "recalled", "superseded", "failed")
        ],
        "failed, by this host": [_way(_handed, _unroutable)],
        "failed, by a reporter": [_way(*_out, _dead)],
        "failed, refused": [_way(*_out, _refused)],
    },
    events={
        "it is handed to the socket": _handed,
        "it cannot be handed over": _not_handed,
        "broker: confirmed": _confirmed,
        "broker: unroutable": _unroutable,
        "broker: nacked": _nacked,
        "4 s without its verdict": _late,
        "the link is lost": _link_lost,
        **{f"word: {word}": event for word, event in _word.items()},
        "a refusal": _refused,
        "a reporter: overflow": _dead,
        "a REPLY to it": _replied,
        "`expiresAt` + 30 s": _bound,
        "`cancel`": _cancelled,
        "`send --retry`": _again,
        "the daemon starts again": _restarted,
    },
    say=_say,
)
