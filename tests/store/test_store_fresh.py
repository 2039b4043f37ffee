"""What the store says without reading is what reading would have said."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fleettrio.core.actions import Record
from fleettrio.core.rows import Key
from fleettrio.store import Store, fresh, open_store
from fleettrio.store.fresh import Fresh
from tests.store.store_rows import NOW, WORKER, commit, inbox_row, msg_id


@pytest.mark.parametrize("seed", range(20))
def test_an_id_is_said_to_be_new_only_where_no_row_has_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "MOST_IDS", 8)
    chance = random.Random(seed)
    memory, written, answers = Fresh(), set[Key](), set[bool]()
    for _ in range(400):
        key = (msg_id(chance.randrange(60)), WORKER)
        match chance.choice(("write", "write", "ask", "ask", "ask", "restart")) if chance.random() < 0.9 else "find":
            case "write":
                memory.took([Record(inbox_row(0, msg_id=key[0]))])
                written.add(key)
            case "restart" if chance.random() < 0.2:
                memory = Fresh()
            case "find":
                memory.found(max((known for known, _ in written), default=msg_id(0)))
            case "ask":
                is_new = memory.is_new(key)
                assert not (is_new and key in written)
                answers.add(is_new)
    assert answers == {True, False}


async def test_rows_of_an_earlier_process_are_known_and_what_is_new_is_not(path: Path) -> None:
    async with open_store(path, at=NOW) as store:
        await store.submit([commit(1), commit(5)], NOW).done()
    async with open_store(path, at=NOW) as store:
        await store.submit([commit(7)], NOW).done()
        rows = await store.known([(msg_id(number), WORKER) for number in (1, 2, 5, 6, 7, 8)])
        assert [row and row.msg_id for row in rows] == [msg_id(1), None, msg_id(5), None, msg_id(7), None]


async def test_bodies_are_the_same_when_only_the_disk_has_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [(msg_id(number), WORKER) for number in range(1, 6)]
    written = [commit(number) for number in range(1, 6)]
    await store.submit(written[:3], NOW).done()
    monkeypatch.setattr(fresh, "MOST_BYTES", 200)
    await store.submit(written[3:], NOW).done()
    messages = [await store.message(*key) for key in keys]
    assert messages == await store.messages(keys)
    assert [message and (message.header, message.body) for message in messages] == [(w.header, w.body) for w in written]
