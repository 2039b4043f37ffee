from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fleettrio.store import Store, open_store
from tests.store.store_rows import NOW


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    async with open_store(path, at=NOW) as opened:
        yield opened
