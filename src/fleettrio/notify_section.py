"""`[notify]`: how the person at this host is told what happens, and of what."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

import msgspec

__all__ = ("NotifySection", "notify_problems")

News = Literal["blocked", "loop", "failed", "reply", "host"]
"""As `core.news` tells them."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class NotifySection(msgspec.Struct, frozen=True):
    """`[notify]`. Without a command, a bell or a URL nobody is told."""

    on: tuple[News, ...] = ("blocked", "loop", "failed", "reply", "host")
    """Agents at a dialog; loops; messages that failed; what came for the person; hosts that are gone."""
    command: tuple[str, ...] = ()
    """Program and arguments; no shell is between. `{text}`, `{what}` and `{host}` in an argument are filled in."""
    bell: bool = False
    """Ring the terminal where the person's last command was given."""
    url: str = ""
    """Where the same is posted as JSON: https://…"""
    bodies: bool = False
    """Tell the beginning of what came, too."""

    @property
    def is_on(self) -> bool:
        return bool(self.on and (self.command or self.bell or self.url))


def notify_problems(notify: NotifySection) -> list[str]:
    """What is wrong with this section. The URL is never shown: it may hold a secret."""
    problems = []
    if notify.command and not notify.command[0].strip():
        problems.append("notify.command: its first word must name a program")
    if not notify.url:
        return problems
    try:
        parts = urlsplit(notify.url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return [*problems, "notify.url: is not a URL"]
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        problems.append("notify.url: must begin with https:// (http:// only to this machine)")
    elif not host:
        problems.append("notify.url: names no host, as in https://ntfy.example/fleet")
    return problems
