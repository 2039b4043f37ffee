"""The journal: what happened on this host, without a body.

What befell a message lies in the message's own row, step by step, in the column `steps`:

    [1800000000000,"waiting"]
    [1800000003000,"failed","refused: expired","since 14:02"]
    [1800000003100,"told","failed","",100]

A line for each state that it reached, and for what befell it beside: when, what, reason, detail, and the milliseconds
where they are not those since the message came. Lines are only added. What has no row, or none any more, has rows of
the journal: a note, an agent, a claim; and, called `steps`, the lines of a message that the ledger forgot.
"""

# ruff: noqa: S608  (SQL is put together from constants of this package; values are always bound)

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

import msgspec

from fleettrio.core.rows import JournalRow
from fleettrio.ids import Gid, MsgId, TraceId, WallMs
from fleettrio.store.tables import JOURNAL

__all__ = ("STEPS", "gone_agents", "journal", "step")

STEPS = "steps"
"""What the journal calls the lines of a message."""


class _Step(msgspec.Struct, array_like=True):
    at: int
    what: str
    reason: str = ""
    detail: str = ""
    ms: int | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Step).decode_lines


def step(at: int, what: str, reason: str = "", detail: str = "", ms: int | None = None) -> str:
    """One line."""
    if ms is not None:
        return _encode((at, what, reason, detail, ms)).decode() + "\n"
    if reason or detail:
        return _encode((at, what, reason, detail)).decode() + "\n"
    return f'[{at},"{what}"]\n'  # by far the most: a word of ours needs no escape


def _steps_of(row: JournalRow) -> Iterator[JournalRow]:
    """What a row called `steps` stands for: its `detail` has the lines, its `ms` is when the message came."""
    for line in _decode(row.detail):
        ms = max(0, line.at - row.ms) if line.ms is None else line.ms
        at, reason, detail = WallMs(line.at), line.reason, line.detail
        yield JournalRow(at, line.what, row.msg_id, row.gid, row.trace_id, row.peer, reason, detail, ms)


_STEPS = f"SELECT 0, '{STEPS}', msg_id, gid, trace_id, {{}}, '', steps, {{}} AS came FROM {{}} WHERE steps <> '' AND "
_STEPS_IN = _STEPS.format("from_host", "arrived_at", "ledger")
_STEPS_OUT = _STEPS.format("to_host", "ts", "outbox")
_NOTES = f"SELECT {JOURNAL.columns} FROM journal WHERE "
_OF_MESSAGES = "msg_id IN (SELECT value FROM json_each(?1)) ORDER BY {} DESC LIMIT ?2"
_OF_TRACE = "(msg_id, gid) IN (SELECT msg_id, gid FROM {} WHERE trace_id = ?1) ORDER BY came DESC LIMIT ?2"
_JOURNAL_OF_MESSAGES = (
    _STEPS_OUT + _OF_MESSAGES.format("came"),
    _STEPS_IN + _OF_MESSAGES.format("came"),
    _NOTES + _OF_MESSAGES.format("id"),
)
_JOURNAL_OF_TRACE = (
    _STEPS_OUT + _OF_TRACE.format("outbox"),
    _STEPS_IN + _OF_TRACE.format("ledger"),
    _NOTES + "trace_id = ?1 ORDER BY id DESC LIMIT ?2",
)

_GONE_AGENTS = (
    "SELECT gid FROM journal WHERE what = 'agent gone' AND gid IS NOT NULL GROUP BY gid ORDER BY max(id) DESC LIMIT ?"
)


def gone_agents(connection: sqlite3.Connection, limit: int) -> list[Gid]:
    """Agents of this host that are gone for good, as far back as the journal goes; at most `limit`, the newest."""
    return [Gid(gid) for (gid,) in connection.execute(_GONE_AGENTS, (limit,))]


def journal(
    connection: sqlite3.Connection, msg_ids: Sequence[MsgId], trace_id: TraceId | None, limit: int
) -> list[JournalRow]:
    """The newest `limit`, oldest first; of one moment a message is accepted, comes, and goes on in this order."""
    found: dict[JournalRow, int] = {}
    for queries, asked in (
        (_JOURNAL_OF_MESSAGES, json.dumps(msg_ids) if msg_ids else ""),
        (_JOURNAL_OF_TRACE, trace_id),
    ):
        for query in queries if asked else ():
            rows = [*map(JOURNAL.row, connection.execute(query, (asked, limit)))][::-1]
            for row in rows:
                steps = [*_steps_of(row)] if row.what == STEPS else [row]
                found.update((step, _GOES_ON) for step in steps)
                if row.what == STEPS and steps[0].what in _BEGINS:
                    found[steps[0]] = _BEGINS.index(steps[0].what)
    return sorted(found, key=lambda step: (step.at, found[step]))[-limit:]


_BEGINS = ("accepted", "waiting")
"""The first step at its sender, and at its recipient, which may be of one host and one moment."""
_GOES_ON = len(_BEGINS)
