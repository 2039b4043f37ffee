"""Programs that must start in a moment find the same socket as everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleettrio.clients.place import socket_path
from fleettrio.home import resolve_paths


@pytest.mark.parametrize("variables", [{"FLEETTRIO_HOME": "/tmp/ft-home"}, {"XDG_STATE_HOME": "/tmp/st"}, {}])
def test_the_quick_way_to_the_socket_is_the_long_one(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FLEETTRIO_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Path(socket_path(variables)) == resolve_paths(variables).socket
