from __future__ import annotations

import pytest

from tests.tasks.memory_broker import MemoryBroker


@pytest.fixture
def memory() -> MemoryBroker:
    return MemoryBroker()
