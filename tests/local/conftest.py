"""A private tmux server for each test that asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fleettrio.testing.agents.room import TmuxRoom

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def room() -> Iterator[TmuxRoom]:
    with TmuxRoom() as room:
        yield room
