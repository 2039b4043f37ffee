"""Why an agent could not be started."""

from __future__ import annotations

from fleettrio.errors import FleetTrioError

__all__ = ("LaunchError",)


class LaunchError(FleetTrioError):
    """An agent was not started, or did not get ready. `reason` is one word for it: `cwd worktree command runtime died
    limit`; `screen` has the last lines that it showed, as it showed them: clean them before anybody sees them."""

    def __init__(self, reason: str, message: str, *, screen: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.screen = screen
