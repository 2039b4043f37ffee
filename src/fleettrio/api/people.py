"""The methods for the person: what happened while nobody was there, what waits, and how the person is told."""

from __future__ import annotations

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.lookup import Lookup
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.api.schema import people
from fleettrio.api.viewer import Viewer
from fleettrio.core.actions import Notify
from fleettrio.core.beside import PersonActed
from fleettrio.errors import FAILED
from fleettrio.ids import Gid, WallMs
from fleettrio.perform import Performer
from fleettrio.store.meanwhile import Meanwhile
from fleettrio.tasks.notify import Notifier
from fleettrio.wire.envelope import Kind

__all__ = ("People",)

AWAY_MS = 15 * 60_000
NOTED_EVERY_MS = 10_000
MOST_MAIL = 5
_ORDER = ("answered", "delivered", "failed", "expired", "unconfirmed", "unknown")
_HOSTS = {"silent": "{} fell silent", "left": "{} was ended", "back": "{} is back"}


class People:
    def __init__(self, performer: Performer, notifier: Notifier) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._notifier = notifier
        self._viewer = Viewer(performer, Lookup(performer))

    def methods(self) -> dict[str, Handler]:
        return {"beside": self.beside, "notify": self.notify}

    async def called(self, method: str, caller: Caller, connection: Connection) -> None:
        """Every request passes by here first: a person's at a terminal says that the person is there."""
        terminal = connection.ancestors[0].tty if connection.ancestors else ""
        if not caller.is_person or not terminal or method in ("hello", "beside"):
            return
        self._notifier.terminal = terminal
        if self._now() >= self._gateway.beside.seen_at + NOTED_EVERY_MS:
            await self._performer.handle(PersonActed())

    async def beside(self, _params: schema.Empty, caller: Caller, connection: Connection) -> people.Beside:
        """What the caller finds on coming back. It counts as being there, once it is told."""
        found = people.Beside()
        if caller.gid and not caller.problem:
            gid = Gid(caller.gid)
            rows = await self._performer.store.inbox_rows(gid, open_only=True, limit=200)
            first = sorted(rows, key=lambda row: row.kind != Kind.ASK)[:MOST_MAIL]
            found.mail = await self._viewer.received(first)
            found.waiting = await self._performer.store.count_inbox(gid, open_only=True)
        seen_at = self._gateway.beside.seen_at
        if caller.is_person and connection.ancestors and connection.ancestors[0].tty:
            if 0 < seen_at < self._now() - AWAY_MS:
                person = self._gateway.settings.me.human
                found.away_since = seen_at
                found.meanwhile = _lines(await self._performer.store.since(seen_at, person))
            await self.called("", caller, connection)
        return found

    async def notify(self, params: people.Notify, caller: Caller, _connection: Connection) -> people.Notified:
        section = self._notifier.section
        if params.test:
            if not caller.is_person:
                raise CallError(FAILED, "not-a-person", "only a person tries this out", "run it at a terminal")
            if not section.is_on:
                text = "nobody is notified: [notify] in fleettrio.toml names no way"
                raise CallError(FAILED, "no-way", text, "give it a command, bell = true or a url")
            host = self._gateway.settings.me.host
            await self._notifier.tell(Notify(what="test", text=f"fleettrio on {host} can reach you"))
        configured = {"command": bool(section.command), "bell": section.bell, "url": bool(section.url)}
        ways = [people.Way(name, self._notifier.problems.get(name, "")) for name, is_on in configured.items() if is_on]
        return people.Notified(list(section.on) if ways else [], ways)

    def _now(self) -> WallMs:
        return self._performer.clock.now().wall


def _lines(meanwhile: Meanwhile) -> list[str]:
    """A few lines; one of them when nothing happened at all."""
    lines = []
    if meanwhile.sent:
        said = ", ".join(f"{meanwhile.sent[word]} {word}" for word in _ORDER if meanwhile.sent[word])
        lines.append(f"sent from here: {said} (fleettrio inbox --sent --all)")
    if meanwhile.came:
        lines.append(f"{_many(meanwhile.came, 'message')} came for you (fleettrio inbox --all)")
    if meanwhile.blocked:
        lines.append(f"waited at a dialog: {', '.join(meanwhile.blocked)}")
    if meanwhile.loops:
        lines.append(f"{_many(meanwhile.loops, 'loop')} held (fleettrio doctor)")
    if meanwhile.hosts:
        lines.append("hosts: " + ", ".join(_HOSTS.get(how, "{}").format(h) for h, how in meanwhile.hosts.items()))
    return lines or ["nothing happened"]


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
