"""Transport into a program in a tmux pane: a typist at a terminal that tmux keeps."""

from __future__ import annotations

from collections.abc import Mapping

from fleettrio.local.echoes import Echoes
from fleettrio.local.harness import Harness
from fleettrio.local.typist import Typist
from fleettrio.panes.terminal import EnterForm, Screen
from fleettrio.panes.tmux import Tmux, parse_target

__all__ = ("TmuxTransport",)


class TmuxTransport(Typist):
    """Into the pane `target` (`%3`, `socket:%3`), which runs `harness`. Raises `ConfigError` for another target."""

    def __init__(
        self,
        target: str,
        harness: Harness,
        *,
        env: Mapping[str, str] | None = None,
        born: int | None = None,
        program: int = 0,
        echoes: Echoes | None = None,
    ) -> None:
        """`env` is added to our own for tmux; the rest is as in `Typist`."""
        super().__init__("tmux", _PaneTerminal(target, env), harness, born=born, program=program, echoes=echoes)


class _PaneTerminal:
    def __init__(self, target: str, env: Mapping[str, str] | None) -> None:
        socket, self._pane = parse_target(target)
        self._tmux = Tmux(socket, env)
        self.name = f"pane {target}"

    async def look(self, *, joined: bool) -> Screen | None:
        return await self._tmux.look(self._pane, joined=joined)

    async def paste(self, data: bytes, *, framed: bool) -> bool:
        """tmux knows itself whether the program asked for brackets."""
        return await self._tmux.paste(self._pane, data)

    async def press(self, form: EnterForm, shown: str) -> bool:
        return await self._tmux.send_enter(self._pane, form, shown)
