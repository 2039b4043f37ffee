from __future__ import annotations

import pytest

from fleettrio.broker.memory import MemoryBroker


@pytest.fixture
def memory() -> MemoryBroker:
    return MemoryBroker()
