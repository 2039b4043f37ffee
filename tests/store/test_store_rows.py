"""What is written is read back as the same rows."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from pathlib import Path

import msgspec
import pytest

from fleettrio.core.actions import (
    Commit,
    DropEntity,
    ForgetPeer,
    Note,
    Record,
    RecordEntity,
    RecordKey,
    RecordPeer,
    RecordPeerEntities,
    RecordSent,
    RecordSetting,
)
from fleettrio.core.rows import InboxState, SentState
from fleettrio.errors import StoreError
from fleettrio.ids import Gid, HostId, Leaf, MsgId, TraceId, WallMs
from fleettrio.store import Store, StoredMessage, contents, journal, open_store, pruning
from fleettrio.store import queries as q
from fleettrio.store.tables import ENTITY, JOURNAL, LEDGER, OUTBOX, PEER, PEER_ENTITY
from tests.store.store_rows import (
    DAY,
    HOUR,
    LEAD,
    MINUTE,
    NOW,
    TRACE,
    WORKER,
    commit,
    entity,
    inbox_row,
    msg_id,
    peer,
    peer_entity,
    sent_row,
)


async def test_commit_keeps_the_message_and_its_row(store: Store) -> None:
    row = inbox_row(
        1,
        re=msg_id(9),
        when="now",
        priority=1,
        intent="question",
        wants_reply=True,
        auto=True,
        depth=3,
        repeat=True,
        notified=False,
    )
    await store.submit([Commit(row, b"header", b"\x00body", b"sig", b"proof")], NOW).done()
    assert await store.known([(msg_id(1), LEAD), (row.msg_id, row.gid)]) == [None, row]
    assert await store.message(row.msg_id, row.gid) == StoredMessage(b"header", b"sig", b"proof", b"\x00body")
    assert await store.messages([(row.msg_id, LEAD), (row.msg_id, row.gid)]) == [
        None,
        StoredMessage(b"header", b"sig", b"proof", b"\x00body"),
    ]


async def test_record_replaces_the_row_and_leaves_the_body(store: Store) -> None:
    await store.submit([commit(1)], NOW).done()
    changed = inbox_row(
        1,
        state=InboxState.RECALLED,
        seq=7,
        leaf=Leaf(b"x"),
        trace_id=TraceId("ab" * 16),
        expires_at=WallMs(5),
        reason="r",
    )
    await store.submit([Record(changed)], NOW).done()
    assert await store.known([(changed.msg_id, changed.gid)]) == [changed]
    message = await store.message(changed.msg_id, changed.gid)
    assert message is not None
    assert message.body == b"body 1"


async def test_record_alone_has_no_body(store: Store) -> None:
    await store.submit([Record(inbox_row(1, state=InboxState.RECALLED))], NOW).done()
    assert await store.message(msg_id(1), WORKER) is None
    assert (await store.known([(msg_id(1), WORKER)])) == [inbox_row(1, state=InboxState.RECALLED)]


async def test_sent_row_keeps_what_was_signed(store: Store) -> None:
    signed = sent_row(1, answered_by=msg_id(3), re=msg_id(2), recalling=True)
    await store.submit([RecordSent(signed)], NOW).done()
    update = msgspec.structs.replace(signed, state=SentState.CONFIRMED, header=b"", sig=b"", proof=b"", recalling=False)
    await store.submit([RecordSent(update)], NOW).done()
    kept = msgspec.structs.replace(signed, state=SentState.CONFIRMED, recalling=False)
    assert await store.sent(msg_id(1), WORKER) == kept
    assert await store.sent(msg_id(1), LEAD) is None
    assert await store.sent_known([(msg_id(5), WORKER), (msg_id(1), WORKER)]) == [None, kept]


async def test_load_has_what_a_start_needs(path: Path) -> None:
    late = WallMs(NOW + 2 * HOUR)
    worker = entity("worker", groups=("a", "b"), wakes=True, full=True, token_hash=b"hash", rev=4)
    async with open_store(path, at=NOW) as store:
        await store.submit(
            [
                commit(1),
                commit(2, state=InboxState.INJECTING),
                commit(3, state=InboxState.OFFERED, notified=False),
                commit(4, state=InboxState.INJECTED),
                commit(5, state=InboxState.FAILED, notified=False),
                commit(6, state=InboxState.DRAINED),
                RecordEntity(worker),
                RecordEntity(entity("gone")),
                DropEntity(Gid("gid-gone")),
                RecordPeer(peer("beta")),
                RecordPeer(peer("gamma")),
                RecordPeerEntities(HostId("beta"), (peer_entity("b1"), peer_entity("b2")), replace=False),
                RecordPeerEntities(HostId("gamma"), (peer_entity("g1", "gamma"),), replace=False),
                RecordSetting("epoch", "17"),
            ],
            NOW,
        ).done()
        finished = [SentState.DRAINED, SentState.EXPIRED, SentState.RECALLED, SentState.SUPERSEDED, SentState.FAILED]
        states = [*SentState]
        await store.submit([RecordSent(sent_row(n, state=state)) for n, state in enumerate(states)], NOW).done()
        await store.submit(
            [
                RecordPeerEntities(HostId("beta"), (peer_entity("b3"),), replace=True),
                ForgetPeer(HostId("gamma")),
            ],
            NOW,
        ).done()
    async with open_store(path, at=late) as store:
        contents = await store.load(NOW)
        assert [row.seq for row in contents.inbox] == [1, 2, 3, 5]
        assert contents.entities == (worker,)
        assert contents.peers == (peer("beta"),)
        assert contents.peer_entities == (peer_entity("b3"),)
        assert contents.settings["epoch"] == "17"
        assert contents.born == NOW
        assert contents.next_seq == 7
        assert {row.state for row in contents.sent} == {*states} - {*finished}
        later = {row.state for row in (await store.load(late)).sent}
        assert later == {*states} - {*finished} - {SentState.INJECTED, SentState.UNCONFIRMED}


async def test_inbox_and_sent_lists(store: Store) -> None:
    await store.submit(
        [
            commit(n, gid=LEAD if n == 4 else WORKER, state=InboxState.DRAINED if n == 2 else InboxState.WAITING)
            for n in range(1, 6)
        ],
        NOW,
    ).done()
    await store.submit([RecordSent(sent_row(n, sender=WORKER if n == 2 else LEAD)) for n in range(1, 4)], NOW).done()
    assert [row.seq for row in await store.inbox_rows(WORKER)] == [5, 3, 2, 1]
    assert [row.seq for row in await store.inbox_rows(WORKER, open_only=True)] == [5, 3, 1]
    assert [await store.count_inbox(WORKER, open_only=is_open) for is_open in (False, True)] == [4, 3]
    assert await store.count_sent(LEAD) == 2
    assert [row.seq for row in await store.inbox_rows(None, limit=3)] == [5, 4, 3]
    assert [row.seq for row in await store.inbox_rows(None, open_only=True)] == [5, 4, 3, 1]
    assert [row.msg_id for row in await store.sent_rows(LEAD)] == [msg_id(3), msg_id(1)]
    assert [row.msg_id for row in await store.sent_rows(None, limit=2)] == [msg_id(3), msg_id(2)]
    last = await store.last_sent(LEAD)
    assert last is not None
    assert last.msg_id == msg_id(3)
    assert await store.last_sent(Gid("nobody")) is None


async def test_last_in_goes_by_the_moment_of_the_injection(store: Store) -> None:
    assert await store.last_in(WORKER) is None
    await store.submit(
        [
            commit(1, state=InboxState.INJECTED, at=WallMs(NOW + 50)),
            commit(2, state=InboxState.INJECTED, at=WallMs(NOW + 20)),
            commit(3, state=InboxState.WAITING, at=WallMs(NOW + 90)),
            commit(4, state=InboxState.RECALLED, at=WallMs(NOW + 95)),
        ],
        NOW,
    ).done()
    last = await store.last_in(WORKER)
    assert last is not None
    assert last.seq == 1


async def test_a_reply_goes_to_the_newest_that_wants_one_and_never_to_an_answer(store: Store) -> None:
    def came(number: int, at: int, kind: str, **changes: object) -> Commit:
        return commit(number, state=InboxState.DRAINED, at=WallMs(NOW + at), kind=kind, **changes)

    await store.submit([came(1, 10, "ANSWER"), came(2, 20, "ASK")], NOW).done()
    assert await store.last_to_reply(WORKER) is None
    await store.submit([came(3, 5, "BROADCAST")], NOW).done()
    assert (await store.last_to_reply(WORKER)).seq == 3  # type: ignore[union-attr]
    await store.submit([came(4, 3, "SEND", wants_reply=True)], NOW).done()
    assert (await store.last_to_reply(WORKER)).seq == 4  # type: ignore[union-attr]
    await store.submit([came(5, 4, "REPLY")], NOW).done()
    assert (await store.last_to_reply(WORKER)).seq == 5  # type: ignore[union-attr]


async def test_find_takes_an_ending_else_a_beginning_of_at_least_four(store: Store) -> None:
    twin = MsgId("01979c00-ffff-7000-8000-0000cafe0001")
    await store.submit(
        [commit(0xCAFE0001), commit(0xBEEF0001), commit(7, msg_id=twin), RecordSent(sent_row(0xCAFE0001))], NOW
    ).done()
    inbox, sent = await store.find("cafe0001")
    assert [row.msg_id for row in inbox] == [msg_id(0xCAFE0001), twin]
    assert [row.msg_id for row in sent] == [msg_id(0xCAFE0001)]
    assert len((await store.find("0001"))[0]) == 3
    assert len((await store.find("EF0001"))[0]) == 1
    assert len((await store.find(twin))[0]) == 1
    assert [row.msg_id for row in (await store.find(twin[:11].upper()))[0]] == [twin]
    begin_and_end = commit(8, msg_id=MsgId("01979c00-0000-7000-8000-000001979c00"))
    assert len((await store.find("01979c00"))[0]) == 3
    await store.submit([begin_and_end], NOW).done()
    assert [row.msg_id for row in (await store.find("01979c00"))[0]] == [begin_and_end.row.msg_id]
    with pytest.raises(StoreError):
        await store.find("\ud800abcd")
    for nothing in ("001", "", "%001", "____", "1" + twin):
        assert await store.find(nothing) == ([], [])


async def test_by_trace_takes_an_ending_else_a_beginning(store: Store) -> None:
    other = TraceId("00" * 15 + "36")
    await store.submit([commit(1), commit(2, trace_id=other), RecordSent(sent_row(3))], NOW).done()
    inbox, sent = await store.by_trace(TRACE)
    assert [row.seq for row in inbox] == [1]
    assert [row.msg_id for row in sent] == [msg_id(3)]
    assert [row.seq for row in (await store.by_trace("0036"))[0]] == [2]
    inbox, sent = await store.by_trace(TRACE[:8])
    assert ([row.seq for row in inbox], [row.msg_id for row in sent]) == ([1], [msg_id(3)])


async def test_an_idempotency_key_stands_for_its_first_messages(store: Store) -> None:
    await store.submit([RecordKey("k", LEAD, (msg_id(1), msg_id(2)))], NOW).done()
    await store.submit([RecordKey("k", LEAD, (msg_id(3),))], NOW).done()
    assert await store.key("k", LEAD) == (msg_id(1), msg_id(2))
    assert await store.key("k", WORKER) is None


async def test_entity_by_token(store: Store) -> None:
    await store.submit([RecordEntity(entity("a", token_hash=b"hash")), RecordEntity(entity("b"))], NOW).done()
    assert await store.entity_by_token(b"hash") == entity("a", token_hash=b"hash")
    assert await store.entity_by_token(b"other") is None
    assert await store.entity_by_token(b"") is None


async def test_the_journal_has_each_state_once(store: Store) -> None:
    later = WallMs(NOW + 3000)
    injected = inbox_row(1, state=InboxState.INJECTED, at=later, via="tmux", notified=False)
    await store.submit([commit(1)], NOW).done()
    await store.submit([Record(injected)], later).done()
    await store.submit([Record(msgspec.structs.replace(injected, notified=True))], later).done()
    await store.submit([Note("refused", msg_id(8), WORKER, TRACE, "gamma", "expired", "since 14:02")], later).done()
    await store.submit(
        [RecordSent(sent_row(5, trace_id=TraceId("cd" * 16))), RecordEntity(entity("w", status="working"))], later
    ).done()
    lines = await store.journal([msg_id(1)])
    assert [(line.at, line.what, line.ms, line.peer) for line in lines] == [
        (NOW, "waiting", 0, "alpha"),
        (later, "injected", 3000, "alpha"),
    ]
    assert [line.what for line in await store.journal(trace_id=TRACE)] == ["waiting", "injected", "refused"]
    assert [line.what for line in await store.journal([msg_id(5)], TRACE, limit=2)] == ["injected", "refused"]
    assert notes(store.path) == ["refused", "agent working"]
    refused = (await store.journal([msg_id(8)]))[0]
    assert (refused.reason, refused.detail, refused.gid) == ("expired", "since 14:02", WORKER)


async def test_of_one_moment_a_message_is_accepted_then_comes_then_goes_on(store: Store) -> None:
    """Between neighbours all of it may be one commit, at either end."""
    sent = sent_row(1, at=NOW)
    held = msgspec.structs.replace(sent, state=SentState.HELD, said_by="peer")
    await store.submit([commit(1), RecordSent(sent), RecordSent(held, sent)], NOW).done()
    assert [line.what for line in await store.journal([msg_id(1)])] == ["accepted", "waiting", "held"]


async def test_what_befell_a_message_outlives_its_row(store: Store) -> None:
    arrived, told = WallMs(NOW - 3 * DAY), WallMs(NOW - 3 * DAY + 40)
    row = inbox_row(1, arrived_at=arrived, at=arrived, expires_at=WallMs(NOW - DAY))
    failed = msgspec.structs.replace(row, state=InboxState.FAILED, reason='no "tab"', detail="a\nb", notified=False)
    await store.submit([Commit(row, b"header", b"body", b"", b"")], arrived).done()
    await store.submit([Record(failed, row)], arrived).done()
    await store.submit([Record(msgspec.structs.replace(failed, notified=True), failed)], told).done()
    lines = await store.journal([msg_id(1)])
    assert [(line.at, line.what, line.reason, line.detail, line.ms) for line in lines] == [
        (arrived, "waiting", "", "", 0),
        (arrived, "failed", 'no "tab"', "a\nb", 0),
        (told, "told", "failed", "", 40),
    ]
    assert (await store.prune(NOW)).inbox == 1
    assert await store.known([(msg_id(1), WORKER)]) == [None]
    assert await store.journal([msg_id(1)]) == lines
    assert await store.journal(trace_id=TRACE) == lines


async def test_a_row_that_changes_twice_in_one_commit_is_as_it_is_at_the_end(store: Store) -> None:
    """Of each state there is a step; what neither change is about stays as it was."""
    accepted = sent_row(1, header=b"signed", at=NOW)
    bare = msgspec.structs.replace(accepted, header=b"", sig=b"", proof=b"")
    confirmed = msgspec.structs.replace(bare, state=SentState.CONFIRMED, at=WallMs(NOW + 1))
    drained = msgspec.structs.replace(confirmed, state=SentState.DRAINED, said_by="peer", at=WallMs(NOW + 2))
    actions = [RecordSent(accepted), RecordSent(confirmed, bare), RecordSent(drained, confirmed)]
    await store.submit(actions, NOW).done()
    stored = msgspec.structs.replace(drained, header=b"signed", sig=accepted.sig, proof=accepted.proof)
    assert await store.sent(msg_id(1), WORKER) == stored
    assert [line.what for line in await store.journal([msg_id(1)])] == ["accepted", "confirmed", "drained"]


async def test_a_change_of_a_row_that_was_forgotten_writes_it_whole(store: Store) -> None:
    kept, lost = sent_row(1), sent_row(2)
    await store.submit([RecordSent(kept)], NOW).done()
    changed = [msgspec.structs.replace(row, state=SentState.DRAINED) for row in (kept, lost)]
    await store.submit([RecordSent(changed[0], kept), RecordSent(changed[1], lost)], NOW).done()
    assert await store.sent_known([(row.msg_id, row.gid) for row in changed]) == changed
    assert [line.what for line in await store.journal([msg_id(1)])] == ["accepted", "drained"]


async def test_a_message_takes_the_place_of_a_tombstone_in_the_same_commit(store: Store) -> None:
    grave = inbox_row(1, leaf=Leaf(b""), state=InboxState.RECALLED, seq=7)
    await store.submit([Record(grave)], NOW).done()
    noted = msgspec.structs.replace(grave, notified=False)
    row = inbox_row(1)
    await store.submit([Record(noted, grave), commit(1), Record(row, noted)], NOW).done()
    assert await store.known([(msg_id(1), WORKER)]) == [row]


async def test_prune_keeps_to_its_bounds(store: Store) -> None:
    final = InboxState.INJECTED
    arrived = WallMs(NOW - 2 * DAY)
    old, recent = WallMs(arrived - 1), WallMs(NOW - 30 * MINUTE)
    await store.submit(
        [
            commit(1, state=final, arrived_at=old, expires_at=WallMs(NOW - MINUTE - 1)),  # goes
            commit(2, state=final, arrived_at=arrived, expires_at=WallMs(NOW - DAY)),  # 48 h are not over
            commit(3, state=final, arrived_at=old, expires_at=WallMs(NOW - MINUTE)),  # 60 s are not over
            commit(4, arrived_at=old, expires_at=WallMs(NOW - DAY)),  # open
            commit(5, state=final, arrived_at=old, expires_at=WallMs(NOW - DAY), notified=False),  # owed
            commit(
                6, state=final, arrived_at=WallMs(NOW - 40 * DAY), expires_at=WallMs(NOW - 39 * DAY), notified=False
            ),
        ],
        NOW,
    ).done()
    fortnight, month, expired = WallMs(NOW - 14 * DAY), WallMs(NOW - 31 * DAY), WallMs(NOW - 1)
    failed, unknown = SentState.FAILED, SentState.UNKNOWN

    def sent(number: int, state: SentState, at: int, expires_at: WallMs = expired) -> RecordSent:
        return RecordSent(sent_row(number, state=state, ts=WallMs(at), at=WallMs(at), expires_at=expires_at))

    await store.submit(
        [
            sent(1, failed, fortnight - 1),  # goes
            sent(2, failed, fortnight),
            sent(3, unknown, fortnight - 1),
            sent(4, unknown, month - 1),  # goes
            sent(5, failed, fortnight - 1, WallMs(NOW + 1)),
        ],
        NOW,
    ).done()
    await store.submit(
        [RecordKey("with its message", LEAD, (msg_id(3),)), RecordKey("alone", LEAD, (msg_id(99),))],
        WallMs(fortnight - 1),
    ).done()
    await store.submit([RecordKey("young", LEAD, (msg_id(99),))], recent).done()
    pruned = await store.prune(NOW)
    assert (pruned.inbox, pruned.sent, pruned.keys) == (2, 2, 1)
    assert sorted(row.seq for row in await store.inbox_rows(None)) == [2, 3, 4, 5]
    assert await store.message(msg_id(1), WORKER) is None
    assert await store.message(msg_id(2), WORKER) is not None
    assert sorted(row.msg_id for row in await store.sent_rows(None)) == [msg_id(2), msg_id(3), msg_id(5)]
    assert await store.key("alone", LEAD) is None
    assert await store.key("young", LEAD) is not None
    assert await store.key("with its message", LEAD) is not None
    assert (await store.prune(NOW)).is_empty


async def test_prune_of_the_journal(store: Store) -> None:
    def note(number: int, at: int) -> None:
        store.submit([Note(f"n{number}", None, None, None, "", "")], WallMs(at))

    for number in range(600):
        note(number, NOW - 14 * DAY - 1)
    note(600, NOW - 14 * DAY)
    note(601, NOW)
    assert (await store.prune(NOW)).journal == 600
    assert notes(store.path) == ["n600", "n601"]
    assert (await store.prune(WallMs(NOW + 20 * DAY))).journal == 2


async def test_the_journal_is_capped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    # The cap is a word of the statement.
    monkeypatch.setattr(pruning, "_DROP_JOURNAL", pruning._DROP_JOURNAL.replace(str(pruning.JOURNAL_LIMIT), "10"))
    await store.submit([Note(f"n{number}", None, None, None, "", "") for number in range(25)], NOW).done()
    assert (await store.prune(NOW)).journal == 15
    assert notes(store.path) == [f"n{number}" for number in range(15, 25)]


async def test_probe_leaves_nothing_behind(store: Store) -> None:
    await store.probe()
    assert (await store.load()).settings == {"born": str(NOW)}


async def test_each_table_has_a_column_per_field(store: Store) -> None:
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        for table in (LEDGER, OUTBOX, ENTITY, PEER, PEER_ENTITY, JOURNAL):
            columns = [column[1] for column in connection.execute(f"PRAGMA table_info({table.name})")]
            assert set(columns) - {"id", "steps"} == set(table.fields)


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (contents._INBOX_AT_START, "ledger_open"),
        (contents._INBOX_AT_START, "ledger_owed"),
        (contents._SENT_AT_START, "outbox_unfinished"),
        (q._INBOX[False, False], "ledger_came"),
        (q._INBOX[True, False], "ledger_came"),
        (q._INBOX[True, True], "ledger_open"),
        (q._SENT_BY, "outbox_sender"),
        (q._SENT_ALL, "outbox_ts"),
        (q._LAST_IN, "ledger_put_in"),
        (q._LAST_IN, "ledger_open"),
        (q._LAST_TO_REPLY, "ledger_put_in"),
        (q._OF_MESSAGE[0][0], "ledger_came"),
        (q._OF_MESSAGE[0][1], "outbox_ts"),
        (q._OF_TRACE[0][0], "ledger_keep"),
        (q._OF_TRACE[0][1], "outbox_ts"),
        (q._OF_TRACE[1][0], "ledger_keep"),
        (q._OF_TRACE[1][1], "outbox_ts"),
        (journal._JOURNAL_OF_TRACE[0], "outbox_ts"),
        (journal._JOURNAL_OF_TRACE[1], "ledger_keep"),
        (journal._JOURNAL_OF_TRACE[2], "journal_trace"),
        (journal._JOURNAL_OF_MESSAGES[2], "journal_message"),
    ],
)
async def test_queries_use_their_index(store: Store, sql: str, index: str) -> None:
    assert re.search(rf"INDEX {index}\b", plan(store.path, sql))


async def test_writing_and_pruning_use_their_index(store: Store) -> None:
    assert "ledger_keep" in plan(store.path, pruning._OLD_INBOX)
    assert "outbox_ts" in plan(store.path, pruning._DROP_SENT)
    for sql in (q._KNOWN, *q._WHOLE, *q._OF_MESSAGE[1], *journal._JOURNAL_OF_MESSAGES[:2], LEDGER.change((True,))):
        assert "PRIMARY KEY" in plan(store.path, sql)


def notes(path: Path) -> list[str]:
    """What the journal has beside the steps of messages, in the order in which it was written."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [what for (what,) in connection.execute("SELECT what FROM journal ORDER BY id")]


def plan(path: Path, sql: str) -> str:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        marks = max([int(n) for n in re.findall(r"\?(\d)", sql)], default=sql.count("?"))
        return "\n".join(str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", [None] * marks))
