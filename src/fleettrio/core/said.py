"""What is said of a message that was sent from here, and what that makes of its row.

Rules:
1. Only the recipient's host (`peer`) says what became of a message; what a reporter (`report`) or we ourselves said of
   it, and a refusal, yield to that.
2. The first final word of the recipient stands. The only steps between its words are `held` → anything,
   `unconfirmed` → `injected`. Another one is a contradiction: noted, alarmed, ignored.
3. Once it was answered, whatever else is said, its agent has read it.
4. Of a question whose turn is over (`turn`) nothing counts any more.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fleettrio.core.actions import Note
from fleettrio.core.calls import NO_VERDICT_YET
from fleettrio.core.rows import ENDED, Key, SentRow, SentState
from fleettrio.ids import Gid, Leaf, MsgId, WallMs
from fleettrio.wire.envelope import Kind

__all__ = (
    "FINAL_WORDS",
    "OPEN_STATES",
    "PEER_STEPS",
    "READ",
    "REFUSED",
    "TURN",
    "VIEW_WORDS",
    "WAITING_STATES",
    "WORDS",
    "Word",
    "contradiction",
    "is_open",
    "is_refusal",
    "made_of",
)

TURN = "turn"
"""`said_by` of a question whose turn is over: nothing that is said of it later counts."""
REFUSED = "refused: "
"""How the reason of a refusal begins: the host did not take the message in, and may do so yet."""

WAITING_STATES = frozenset({SentState.OUTCOME_UNKNOWN, SentState.CONFIRMED, SentState.UNKNOWN})
FINAL_WORDS = frozenset(
    {
        SentState.INJECTED,
        SentState.DRAINED,
        SentState.EXPIRED,
        SentState.RECALLED,
        SentState.SUPERSEDED,
        SentState.FAILED,
        SentState.READY,
        SentState.DONE,
    }
)
OPEN_STATES = WAITING_STATES | NO_VERDICT_YET | {SentState.HELD}
WORDS = FINAL_WORDS | {SentState.HELD, SentState.UNCONFIRMED}
"""All that another host can say about a message; and what only changes the view:"""
VIEW_WORDS = frozenset({"absent", "waiting", "injecting", "offered"})
PEER_STEPS: dict[SentState, frozenset[SentState]] = {
    SentState.HELD: FINAL_WORDS | {SentState.UNCONFIRMED},
    SentState.UNCONFIRMED: frozenset({SentState.INJECTED}),
}
"""Words of the recipient's host that may follow an earlier word of the same host."""
READ = frozenset({SentState.HELD, SentState.UNCONFIRMED, SentState.INJECTED, SentState.DRAINED})
"""Words that agree with an answer that has come."""
_READ_BY_AGENT = frozenset({SentState.HELD, SentState.UNCONFIRMED, SentState.INJECTED})


class Word(msgspec.Struct, frozen=True, gc=False):
    """What is said of one message. `state` is as it came: of `WORDS` or `VIEW_WORDS`, `ended`, or unheard of."""

    msg_id: MsgId
    gid: Gid
    leaf: Leaf
    state: str
    reason: str
    detail: str
    via: str
    at: WallMs
    stale: str = ""
    turn_id: str = ""
    """Of a notice about a question or an answer, which has no leaf."""

    @property
    def key(self) -> Key:
        return self.msg_id, self.gid


def is_open(row: SentRow) -> bool:
    """True while the fate of the message is not known."""
    return row.state in OPEN_STATES


def is_refusal(row: SentRow) -> bool:
    """True when the host did not take it in, and may do so yet. What it refused as expired has its end; a question has
    it, too: nobody waits for its answer any more."""
    return row.state is SentState.FAILED and row.reason.startswith(REFUSED) and row.kind != Kind.ASK


def contradiction(row: SentRow, then: str) -> Note:
    """Two words about one message that cannot both be true."""
    return note("contradiction", row, f"{row.state} then {then}")


def note(what: str, row: SentRow, reason: str) -> Note:
    """An alarm about a message of ours."""
    return Note(what, row.msg_id, row.gid, row.trace_id, row.to_host, reason[:64], alarm=True)


def made_of(row: SentRow, word: Word, said_by: str) -> dict[str, Any] | Note:
    """What `word` changes of `row`; nothing where it has no say. A word that cannot be is a note."""
    if word.state == ENDED:
        return _ended(row, word, said_by)
    if word.state not in WORDS:
        return note("unknown-word", row, word.state)
    new = SentState(word.state)
    refuses = word.reason.startswith(REFUSED)
    if row.said_by == "peer" and not is_refusal(row):
        return _after_a_word(row, new, word) if said_by == "peer" else {}
    if (said_by == "report" and row.said_by in ("report", "peer")) or (refuses and is_refusal(row)):
        return {}
    return _said(row, new, word, said_by)


def _after_a_word(row: SentRow, new: SentState, word: Word) -> dict[str, Any] | Note:
    """The recipient's host said something of it before."""
    if new is row.state:
        if word.stale and not row.stale:
            return {"stale": word.stale}  # its answer came before the word about it
        if new is SentState.HELD and word.reason != row.reason:
            return {"reason": word.reason, "detail": word.detail, "at": word.at}  # held for another reason now
        return {}
    if new is SentState.HELD:
        return {}
    if row.reason.startswith(REFUSED) and new is SentState.RECALLED:
        return {}  # refused as expired, and called back when it was over: it was not delivered, say both
    if row.answered_by and new in READ:
        is_more = new is SentState.DRAINED
        return {"state": new, "via": word.via, "at": word.at, "stale": word.stale} if is_more else {}
    if new not in PEER_STEPS.get(row.state, ()):
        return contradiction(row, new)
    return _said(row, new, word, "peer")


def _said(row: SentRow, new: SentState, word: Word, said_by: str) -> dict[str, Any]:
    return {
        "state": new,
        "reason": word.reason,
        "detail": word.detail,
        "via": word.via,
        "said_by": said_by,
        "at": word.at,
        "stale": word.stale,
        "recalling": row.recalling and new is SentState.HELD,
    }


def _ended(row: SentRow, word: Word, said_by: str) -> dict[str, Any]:
    """The turn that took it is over, without an answer. One that comes later still counts."""
    is_settled = row.said_by == "peer" and row.state not in _READ_BY_AGENT
    if said_by != "peer" or row.answered_by or row.answer == ENDED or is_settled:
        return {}
    said = {"reason": "", "detail": word.detail, "said_by": "peer", "at": word.at, "recalling": False}
    return {"state": SentState.INJECTED, "answer": ENDED, **said}
