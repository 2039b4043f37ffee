"""Telling the person: a command, the terminal's bell, a hook at a URL.

Rules:
1. One after the other, each way for at most 10 s; a command that hangs is killed with all that it started. What comes
   meanwhile waits, up to 32; what is more is dropped and counted.
2. Nothing that fails here touches a message: it is logged and counted, and `doctor` says so until it works again.
3. What a peer wrote passes the sanitiser on its way. Bodies are told only where the person asked for it.
4. A URL may hold a secret, so it stands in no log and no error. A redirection is not followed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from typing import IO

import trio

from fleettrio.core.actions import Notify
from fleettrio.errors import StoreError
from fleettrio.local.process import NOT_INHERITED
from fleettrio.local.sanitise import clean, one_line
from fleettrio.notify_section import NotifySection
from fleettrio.observe import COUNTERS, get_logger
from fleettrio.perform import Performer

__all__ = ("Notifier", "run_notify")

LIMIT_S = 10.0
WAITING = 32
TEXT_LIMIT = 300
BODY_LIMIT = 2_000
_PLACE = re.compile(r"\{(text|what|host)\}")

log = get_logger("notify")


class Notifier:
    """The ways to the person at this host. `problems` has what did not work the last time, by way."""

    def __init__(self, section: NotifySection, performer: Performer, env: Mapping[str, str]) -> None:
        self.section = section
        self.problems: dict[str, str] = {}
        self.terminal = ""
        """The terminal of the person's last command."""
        self._performer = performer
        self._host = performer.gateway.settings.me.host
        self._env = {key: value for key, value in env.items() if key not in NOT_INHERITED}

    async def tell(self, notice: Notify) -> dict[str, str]:
        """Tell it by every way that is configured; what went wrong by way, empty for what went well.

        Cancelled, a command that runs is killed.
        """
        text = one_line(notice.text, TEXT_LIMIT)
        body = await self._body(notice) if self.section.bodies else ""
        came_of: dict[str, str] = {}
        if self.section.command:
            came_of["command"] = await self._run(notice.what, text, body)
        if self.section.bell:
            came_of["bell"] = await trio.to_thread.run_sync(self._ring)
        if self.section.url:
            came_of["url"] = await self._post(notice.what, text, body)
        for way, problem in came_of.items():
            if problem:
                self.problems[way] = problem
                COUNTERS.count("notify-failed", way)
                log.warning("not notified", way=way, what=notice.what, reason=problem)
            else:
                self.problems.pop(way, None)
                COUNTERS.count("notified", way)
        return came_of

    async def _body(self, notice: Notify) -> str:
        if notice.about is None:
            return ""
        try:
            stored = await self._performer.store.message(*notice.about)
        except StoreError:
            return ""
        return clean(stored.body[: 4 * BODY_LIMIT])[:BODY_LIMIT] if stored else ""

    async def _run(self, what: str, text: str, body: str) -> str:
        """Run the command, with the text (and the body below it) on its standard input; what went wrong."""
        known = {"text": text, "what": what, "host": self._host}
        argv = [_filled(word, known) for word in self.section.command]
        try:
            child = self._start(argv, f"{text}\n{body}".strip() + "\n")
        except OSError as error:
            return f"{argv[0]} could not be started: {error.strerror}"
        try:
            with trio.move_on_after(LIMIT_S):
                code = await trio.to_thread.run_sync(child.wait, abandon_on_cancel=True)
                return f"{argv[0]} ended with {code}" if code else ""
            return f"{argv[0]} did not end within {LIMIT_S:.0f} s and was killed"
        finally:
            if child.poll() is None:
                _kill(child)

    def _start(self, argv: list[str], given: str) -> subprocess.Popen[bytes]:
        with tempfile.TemporaryFile(prefix="fleettrio-") as source:
            source.write(given.encode())
            source.seek(0)
            return subprocess.Popen(
                argv,
                stdin=source,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._env,
                start_new_session=True,
            )

    def _ring(self) -> str:
        if not self.terminal:
            return "no command was given at a terminal yet"
        try:
            terminal = os.open(self.terminal, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            return f"{self.terminal}: {error.strerror}"
        try:
            if os.isatty(terminal):
                os.write(terminal, b"\a")
        except OSError as error:
            return f"{self.terminal}: {error.strerror}"
        finally:
            os.close(terminal)
        return ""

    async def _post(self, what: str, text: str, body: str) -> str:
        facts = {"what": what, "text": text, "host": self._host, **({"body": body} if body else {})}
        with trio.move_on_after(LIMIT_S):
            post: Callable[[], str] = lambda: _post(self.section.url, json.dumps(facts).encode())  # noqa: E731
            return await trio.to_thread.run_sync(post, abandon_on_cancel=True)
        return f"no answer within {LIMIT_S:.0f} s"


async def run_notify(
    notifier: Notifier, performer: Performer, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Tell the person what comes, until cancelled. Cancelled, what waits is dropped."""
    send, receive = trio.open_memory_channel[Notify](WAITING)
    if notifier.section.is_on:
        performer.notices = send
    task_status.started()
    async for notice in receive:
        await notifier.tell(notice)


def _filled(word: str, known: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: known[place[1]], word)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End it with all that it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Never: where it leads, nobody configured."""


def _post(url: str, data: bytes) -> str:
    """Post; what went wrong, without the URL."""
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method="POST")  # noqa: S310  https, checked with the configuration
    try:
        with urllib.request.build_opener(_NoRedirection).open(request, timeout=LIMIT_S):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"the server answered {error.code}"
    except urllib.error.URLError as error:
        return f"not reached: {getattr(error.reason, 'strerror', None) or type(error.reason).__name__}"
    except (OSError, ValueError) as error:
        return f"not reached: {type(error).__name__}"
