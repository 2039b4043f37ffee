"""The pane that is made for a person outside tmux: how its program ended, whenever tmux has seen it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fleettrio.clients.cli import newpane
from fleettrio.clients.cli.newpane import NewPane
from fleettrio.panes.server import OwnServer
from fleettrio.testing.waiting import wait_until

if TYPE_CHECKING:
    from tests.launch.conftest import Room


class _Busy(OwnServer):
    """A server that sees the end of a program only when it is asked for the third time."""

    asked = 0

    async def exit_code(self, pane: str) -> int | None:
        self.asked += 1
        return await super().exit_code(pane) if self.asked > 2 else None


@pytest.mark.parametrize("server", [OwnServer, _Busy])
def test_a_program_that_has_ended_does_not_run_on_however_late_tmux_sees_it(
    room: Room, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], server: type[OwnServer]
) -> None:
    for variable, value in room.env.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(newpane, "OwnServer", server)
    pane = NewPane("o", [room.script("echo its last words; exit 7")])
    wait_until("it has ended", lambda: pane.has_ended)
    assert pane.show() == 7
    said = capfd.readouterr().err
    assert "its last words" in said
    assert "it runs on" not in said
