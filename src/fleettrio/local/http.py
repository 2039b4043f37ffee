"""Transport into an opencode session by the HTTP server of the program itself: nothing is typed, a draft stays a draft.

Rules:

1. Only a server on this machine, without a proxy and without following it elsewhere; every answer is bounded.
2. A session that its server does not list as busy is idle; one that waits for a permission is listed as busy, so what
   waits for a permission is asked for as well. Any of them on that server blocks: its terminal shows one for all.
3. `prompt_async` answers before the turn begins. `submitted` needs the session seen busy, or the prompt hook's echo.
4. Refused (4xx) or not connected: not a byte became a prompt. Anything else that is no answer: `unconfirmed`.
"""

from __future__ import annotations

import base64
import re
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
import trio

from fleettrio.errors import ConfigError, FleetTrioError
from fleettrio.local.httpcall import NoAnswer, NoServer, call
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text

if TYPE_CHECKING:
    from fleettrio.local.echoes import Echoes

__all__ = ("HttpTransport", "parse_api")

TURN_S: Final = 10.0
POLL_S: Final = 0.05
USER, PASSWORD = "OPENCODE_SERVER_USERNAME", "OPENCODE_SERVER_PASSWORD"

_HERE = ("127.0.0.1", "localhost", "::1")
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,128}")

_locks: weakref.WeakValueDictionary[tuple[str, int, str], trio.Lock] = weakref.WeakValueDictionary()
"""One lock a session, whoever holds a transport into it: the turn that is seen to begin is that of the prompt given."""


class _NotThere(FleetTrioError):
    """There is no such server or session, or it does not let us in."""


def parse_api(api: str, session: str = "") -> tuple[str, int, str]:
    """(host, port, session) of `http://127.0.0.1:4096` and an id, or of `http://127.0.0.1:4096/session/ID`.

    Raises `ConfigError` for anything else, above all for a server on another machine.
    """
    hint = "give the server's address on this machine and the session: http://127.0.0.1:4096/session/ID"
    try:
        url = urlsplit(api)
        host, port = url.hostname, url.port
    except ValueError as error:
        raise ConfigError([f"{api!r} is not the address of a server: {error}"], hint=hint) from error
    if url.scheme != "http" or host not in _HERE or url.username or url.query or url.fragment:
        raise ConfigError([f"{api!r} is not the server of a harness on this machine"], hint=hint)
    path = re.fullmatch(r"/session/([^/]+)|/?", url.path)
    session = session or (path and path[1]) or ""
    if path is None or _SESSION.fullmatch(session) is None:
        raise ConfigError([f"{api!r} names no session"], hint=hint)
    return host, port or 80, session


def _authorization(env: Mapping[str, str]) -> dict[str, str]:
    if not env.get(PASSWORD):
        return {}
    pair = f"{env.get(USER) or 'opencode'}:{env[PASSWORD]}"
    return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


class HttpTransport:
    """Into the session that `api` and `session` name (`parse_api`). Raises `ConfigError`.

    `env` may hold the server's user and password, under the names that opencode itself reads.
    """

    name = "http"
    wakes = True

    def __init__(
        self,
        api: str,
        session: str = "",
        *,
        env: Mapping[str, str] | None = None,
        echoes: Echoes | None = None,
        turn_s: float = TURN_S,
    ) -> None:
        host, port, self._session = parse_api(api, session)
        self._server, self._shown = (host, port), f"{host}:{port}"
        self._auth = _authorization(env or {})
        self._lock = _locks.setdefault((host, port, self._session), trio.Lock())
        self._echoes = echoes
        self._turn_s = turn_s

    async def state(self) -> AgentState:
        """Look, change nothing."""
        found = await self._look()
        return found.state

    async def reserve(self, when: str) -> Reserved | NotReady:
        found = await self._look()
        if isinstance(found, Reserved) and found.state is AgentState.WORKING and when != "now":
            return NotReady(AgentState.WORKING, "it is working")
        return found

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """Give the text as a prompt. Takes at most its bound for evidence and a few requests. Cancelled after the
        request began, the prompt may or may not be there.
        """
        async with self._lock:
            return await self._put(reserved, text)

    async def close(self) -> None:
        """Nothing is held; the session lives on."""

    async def _put(self, reserved: Reserved, text: Text) -> Delivery:
        found = await self.reserve("now" if reserved.state is AgentState.WORKING else "idle")
        if isinstance(found, NotReady):
            return Delivery.nothing(found.why)
        if found.generation != reserved.generation:
            return Delivery.nothing("another session is there since it was looked at")
        echo = self._echoes.expect(text.nonce) if self._echoes else None
        try:
            prompt = {"parts": [{"type": "text", "text": text.framed}]}
            await self._ask("POST", f"/session/{self._session}/prompt_async", prompt)
        except _NotThere as error:
            return Delivery.nothing(str(error))
        except NoAnswer as error:
            return Delivery.unconfirmed(str(error))
        return await self._evidence(echo, mid_turn=found.state is AgentState.WORKING)

    async def _evidence(self, echo: trio.Event | None, *, mid_turn: bool) -> Delivery:
        with trio.move_on_after(self._turn_s):
            while True:
                if echo is not None and echo.is_set():
                    return Delivery(DeliveryOutcome.SUBMITTED, "its prompt hook gave it back", saw_work=True)
                if not mid_turn and await self.state() in (AgentState.WORKING, AgentState.BLOCKED):
                    return Delivery(DeliveryOutcome.SUBMITTED, "its session went to work", saw_work=True)
                await trio.sleep(POLL_S)
        if mid_turn:
            return Delivery.unconfirmed("mid-turn: its server took it while the agent works")
        return Delivery.unconfirmed("its server took it; no turn was seen to begin")

    async def _look(self) -> Reserved | NotReady:
        try:
            busy = await self._ask("GET", "/session/status")
            asking = await self._ask("GET", "/permission")
            await self._ask("GET", f"/session/{self._session}")
        except _NotThere as error:
            return NotReady(AgentState.GONE, str(error), gone=True)
        except NoAnswer as error:
            return NotReady(AgentState.UNKNOWN, str(error))
        if not isinstance(busy, dict) or not isinstance(asking, list):
            return NotReady(AgentState.UNKNOWN, f"the server at {self._shown} answers like no opencode that we know")
        if asking:
            return NotReady(AgentState.BLOCKED, "it is at a permission prompt")
        mine = busy.get(self._session)
        kind = mine.get("type") if isinstance(mine, dict) else "idle" if mine is None else "busy"
        return Reserved(self._session, AgentState.IDLE if kind == "idle" else AgentState.WORKING)

    async def _ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer's JSON, None for an empty one. Raises `_NotThere`, and `NoAnswer` when it may have been done."""
        data = b"" if body is None else msgspec.json.encode(body)
        headers = {**self._auth, **({"content-type": "application/json"} if data else {})}
        try:
            answer = await call(*self._server, method, path, headers, data)
        except NoServer as error:
            raise _NotThere(str(error)) from error
        return self._read(answer.status, answer.body, path)

    def _read(self, status: int, answer: bytes, path: str) -> Any:
        match status:
            case 401 | 403:
                raise _NotThere(f"the server at {self._shown} wants a password: give the daemon {PASSWORD}")
            case 404:
                raise _NotThere(f"the server at {self._shown} has no session {self._session}")
            case _ if 400 <= status < 500:
                raise _NotThere(f"the server at {self._shown} refused {path} with {status}")
            case _ if not 200 <= status < 300:
                raise NoAnswer(f"the server at {self._shown} answered {path} with {status}")
        try:
            return msgspec.json.decode(answer) if answer else None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NoAnswer(f"the server at {self._shown} answered {path} with no JSON") from error
