"""What is measured in one process, without a broker, gives a figure: the parts of a daemon that it uses still fit."""

from __future__ import annotations

import pytest

from fleettrio.bench import local, lone
from fleettrio.bench.context import Context


def test_a_lone_message_has_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lone, "_PAIRS", 2)
    monkeypatch.setattr(lone, "_WARM", 1)
    with Context(rounds=1) as context:
        (row,) = lone.measure_lone(context)
    assert None not in (row.measured, row.peer), row


def test_a_neighbours_message_has_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_COUNT", 128)
    with Context(rounds=1) as context:
        rows = list(local.measure(context))
    assert rows
    assert all(None not in (row.measured, row.peer) for row in rows), rows
