"""The file: lock, schema, damage, a full disk, a killed daemon."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleettrio.core.entity import Entity
from fleettrio.errors import StoreError
from fleettrio.store import Store, open_store
from fleettrio.store.lock import filesystem_of
from fleettrio.store.schema import MIGRATIONS, copy_path
from fleettrio.store.tables import ENTITY
from tests.store.store_rows import NOW, WORKER, commit, inbox_row, msg_id

HERE = Path(__file__).parent
NEXT = (*MIGRATIONS, ("ALTER TABLE setting ADD COLUMN note TEXT", "UPDATE setting SET note = 'migrated'"))


def child(script: str, *arguments: object) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent.parent), *filter(None, sys.path)])}
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def content(path: Path) -> bytes:
    return path.read_bytes()


def make_file(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


async def fill(store: Store, written: list[int]) -> None:
    """Commit message after message until one fails; `written` has those that did not."""
    for number in range(1, 10_000):
        await store.submit([commit(number)], NOW).done()
        written.append(number)


def value(path: Path, sql: str) -> object:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchone()[0]


async def refusal(path: Path) -> StoreError:
    with pytest.raises(StoreError) as caught:
        async with open_store(path):
            pass
    return caught.value


async def test_only_we_may_read_it(store: Store) -> None:
    await store.submit([commit(1)], NOW).done()
    for file in store.path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_second_daemon_is_refused(store: Store) -> None:
    error = await refusal(store.path)
    assert error.reason == "locked"
    assert f"another fleettrio daemon (pid {os.getpid()}) holds {store.path}" in str(error)
    assert "fleettrio down" in error.hint
    await store.submit([commit(1)], NOW).done()


async def test_the_lock_ends_with_the_store(path: Path) -> None:
    for _ in range(2):
        async with open_store(path) as store:
            await store.probe()


async def test_a_newer_schema_is_refused_unchanged(path: Path) -> None:
    async with open_store(path, migrations=NEXT) as store:
        await store.submit([commit(1)], NOW).done()
    before = content(path)
    error = await refusal(path)
    assert error.reason == "newer-schema"
    assert error.hint
    assert content(path) == before


async def test_a_migration_keeps_a_copy(path: Path) -> None:
    async with open_store(path, at=NOW) as store:
        await store.submit([commit(1)], NOW).done()
    async with open_store(path, migrations=NEXT) as store:
        assert await store.known([(msg_id(1), WORKER)]) == [inbox_row(1)]
        assert (await store.load()).born == NOW
    assert value(path, "SELECT note FROM setting") == "migrated"
    copy = copy_path(path, len(MIGRATIONS))
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    async with open_store(copy) as store:
        assert await store.known([(msg_id(1), WORKER)]) == [inbox_row(1)]


async def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    async with open_store(path) as store:
        await store.submit([commit(1)], NOW).done()
    with pytest.raises(StoreError, match="opening"):
        async with open_store(path, migrations=(*NEXT, ("ALTER TABLE nothing ADD COLUMN x",))):
            pass
    assert value(path, "PRAGMA user_version") == len(MIGRATIONS)
    async with open_store(path) as store:
        assert await store.known([(msg_id(1), WORKER)]) == [inbox_row(1)]


async def test_a_new_store_leaves_no_copy(store: Store) -> None:
    assert not list(store.path.parent.glob("*.v*"))


async def test_a_database_of_another_program_is_refused(path: Path) -> None:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs(x)")
    assert (await refusal(path)).reason == "foreign"


async def test_a_damaged_file_is_refused_and_kept(path: Path) -> None:
    make_file(path, b"this is no database" * 500)
    error = await refusal(path)
    assert error.reason == "corrupt"
    assert "integrity_check" in error.hint
    assert content(path) == b"this is no database" * 500


async def test_a_kill_loses_nothing_that_was_acknowledged(path: Path) -> None:
    process = child("write_until_killed.py", path)
    assert process.stdout is not None
    with process, contextlib.ExitStack() as at_end:
        at_end.callback(process.kill)
        acknowledged = [int(process.stdout.readline()) for _ in range(300)]
        process.kill()
        acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
    async with open_store(path) as store:
        assert value(path, "PRAGMA integrity_check") == "ok"
        rows = await store.known([(msg_id(number), WORKER) for number in acknowledged])
        assert [row and row.seq for row in rows] == acknowledged
        messages = await store.messages([(msg_id(number), WORKER) for number in acknowledged])
        assert all(messages)
        bodies, ledger = value(path, "SELECT count(*) FROM bus"), value(path, "SELECT count(*) FROM ledger")
        assert bodies == ledger


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs root to mount a small filesystem; the file size limit below stands in for it")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1500k,mode=700", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("this container may not mount")
    yield folder
    subprocess.run(["umount", folder], check=True)


async def test_a_full_disk_is_told_and_gets_over(small_disk: Path) -> None:
    path, written = small_disk / "store.db", list[int]()
    ballast = small_disk / "ballast"
    make_file(ballast, b"x" * 700_000)
    async with open_store(path) as store:
        with pytest.raises(StoreError) as caught:
            await fill(store, written)
        assert caught.value.reason in {"disk-full", "io"}
        assert caught.value.hint
        assert written
        with pytest.raises(StoreError):
            await store.submit([commit(5000 + n) for n in range(500)], NOW).done()
        failed = written[-1] + 1
        assert await store.known([(msg_id(failed), WORKER)]) == [None]
        ballast.unlink()
        await store.probe()
        await store.submit([commit(failed)], NOW).done()
    async with open_store(path) as store:
        rows = await store.known([(msg_id(number), WORKER) for number in [*written, failed]])
        assert [row and row.seq for row in rows] == [*written, failed]
        assert await store.inbox_rows(None, limit=1) == [inbox_row(failed)]
        assert value(path, "PRAGMA integrity_check") == "ok"


async def test_a_file_that_may_not_grow_is_told_and_gets_over(path: Path) -> None:
    with child("write_until_full.py", path) as process:
        output, _ = process.communicate(timeout=180)
    told = json.loads(output)
    assert told["reason"] in {"disk-full", "io"}
    assert told["written"] > 0
    async with open_store(path) as store:
        assert len(await store.inbox_rows(None, limit=10_000)) == told["written"] + 1
        assert value(path, "PRAGMA integrity_check") == "ok"


@pytest.mark.skipif(sys.platform != "linux", reason="the table of mounts is Linux's")
def test_filesystem_of(tmp_path: Path) -> None:
    assert filesystem_of(Path("/proc/self")) == "proc"
    assert filesystem_of(tmp_path / "not" / "there") not in {"", "proc"}


async def test_a_shared_filesystem_is_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/home {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr("fleettrio.store.lock._MOUNTS", mounts)
    error = await refusal(path)
    assert "nfs4" in str(error)
    assert "FLEETTRIO_HOME" in error.hint


async def test_an_agent_of_an_older_store_is_known_again_without_a_session(path: Path) -> None:
    async with open_store(path, migrations=MIGRATIONS[:2]):
        pass
    values = dict(zip(ENTITY.fields, ENTITY.values(Entity(gid=WORKER, name="worker", salt=b"s" * 16)), strict=True))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        old = [name for _, name, *_ in connection.execute("PRAGMA table_info(entity)")]
        columns = ", ".join(f'"{field}"' for field in old)
        marks = ", ".join("?" * len(old))
        connection.execute(f"INSERT INTO entity({columns}) VALUES ({marks})", [values[field] for field in old])  # noqa: S608
        connection.commit()
    async with open_store(path) as store:
        assert (await store.load()).entities == (Entity(gid=WORKER, name="worker", salt=b"s" * 16),)
