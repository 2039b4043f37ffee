"""What became of a broadcast, all members together: `7 of 8 injected, 1 expired`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fleettrio.core.rows import SentRow, SentState
from fleettrio.core.topology import EVERYBODY

__all__ = ("group_name", "in_order", "tally")

_WORDS = {
    SentState.ACCEPTED: "on its way",
    SentState.WRITTEN: "on its way",
    SentState.CONFIRMED: "waiting",
    SentState.OUTCOME_UNKNOWN: "unknown",
}
_ORDER = ("answered", "injected", "drained", "held", "waiting", "on its way", "unconfirmed", "unknown")
"""The good ends first, then what is open; other ends follow."""


def group_name(to: str) -> str:
    """Whom a broadcast key means."""
    group = to.partition(".")[2]
    return "everybody" if group == EVERYBODY else f"group {group}"


def tally(head: SentRow, members: Iterable[SentRow]) -> str:
    """The members that were known when it went out by what became of them, then the others that reported."""
    rows = list(members)
    known = _counted(row for row in rows if not row.late)
    late = _counted(row for row in rows if row.late)
    total = sum(known.values())
    if not total:
        where = "nobody is known here" if head.to == f"broadcast.{EVERYBODY}" else f"nobody is in {group_name(head.to)}"
        said = f"{where}, as far as this host knows"
    else:
        (first, count), *others = known.items()
        said = ", ".join([f"{count} of {total} {first}", *(f"{number} {word}" for word, number in others)])
    more = ", ".join(f"{number} {word}" for word, number in late.items())
    failed = head.state is SentState.FAILED and f"; it did not leave this host: {head.reason}"
    return said + (f"; others beside them: {more}" if more else "") + (failed or "")


def in_order(rows: Sequence[SentRow]) -> list[SentRow]:
    """The rows of messages with each broadcast's head before its members; the messages stay in their order."""
    first = {row.msg_id: place for place, row in reversed(list(enumerate(rows)))}
    return sorted(rows, key=lambda row: (first[row.msg_id], not row.is_head))


def _counted(rows: Iterable[SentRow]) -> dict[str, int]:
    words = Counter("answered" if row.answered_by else _WORDS.get(row.state, str(row.state)) for row in rows)
    return dict(sorted(words.items(), key=lambda item: (_place(item[0]), item[0])))


def _place(word: str) -> int:
    return _ORDER.index(word) if word in _ORDER else len(_ORDER)
