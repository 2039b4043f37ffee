"""A home with a short path: the local socket's may not be long."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as folder:
        yield Path(folder)
