"""Which tmux pane this very command runs in, if it does, and what a pane of its server is to the daemon."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from fleettrio.api.processes import read_process

__all__ = ("own_pane", "pane_around")

_LIMIT_S = 5.0


def own_pane(env: Mapping[str, str]) -> str:
    """The pane of this terminal as the daemon takes it: `%3`, or `/path/of/socket:%3`; empty outside tmux.

    A terminal that was opened from inside tmux (an editor's, another window's) has tmux's variables too, without being
    one of its panes: so the pane must have our own terminal.
    """
    socket, pane = env.get("TMUX", "").rsplit(",", 2)[0], env.get("TMUX_PANE", "")
    ours = read_process(os.getpid())
    if not socket or not pane or ours is None or not ours.tty:
        return ""
    ask = ["tmux", "-u", "-S", socket, "display-message", "-p", "-t", pane, "#{pane_tty}"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if done.stdout.strip() != ours.tty:
        return ""
    return pane_around(pane, env)


def pane_around(pane: str, env: Mapping[str, str]) -> str:
    """A pane of the tmux server that this command runs in: `%3`, or `/path/of/socket:%3`; as it is outside tmux.

    A name without its path would be another server where the daemon has another `TMUX_TMPDIR`.
    """
    socket = env.get("TMUX", "").rsplit(",", 2)[0]
    is_usual = socket == f"/tmp/tmux-{os.getuid()}/default" and not env.get("TMUX_TMPDIR")  # noqa: S108
    return pane if is_usual or not socket else f"{socket}:{pane}"
