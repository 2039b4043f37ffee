"""What another host tells of a trace (`core.traces`), read as rows of our own.

Nothing in it is believed to be well formed. A row that is not what it must be is left
out: it is that host's to mend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fleettrio.api.schema import JournalLine, MessageView
from fleettrio.api.tally import group_name
from fleettrio.api.views import inbox_view, sent_view
from fleettrio.core.compose import gateway_of
from fleettrio.core.gateway import Gateway
from fleettrio.core.rows import InboxRow, InboxState, SentRow, SentState
from fleettrio.ids import Gid, HostId, Leaf, MsgId, TraceId, WallMs
from fleettrio.wire.gids import is_gid, is_msg_id, is_name

__all__ = ("read_told",)

_LONGEST = 200


def read_told(
    rows: Sequence[Mapping[str, Any]], host: HostId, trace_id: TraceId, gateway: Gateway, now: WallMs
) -> tuple[list[MessageView], list[JournalLine]]:
    """The messages and the journal lines in an answer of `host`, as it told them."""
    views, lines = [], []
    for told in rows:
        read = _Row(told, host, trace_id, gateway, now)
        if told.get("row") == "step":
            lines.append(read.line())
        elif (view := read.view()) is not None:
            views.append(view)
    return views, lines


class _Row:
    def __init__(self, told: Mapping[str, Any], host: HostId, trace_id: TraceId, gateway: Gateway, now: WallMs) -> None:
        self._told = told
        self._host = host
        self._trace_id = trace_id
        self._gateway = gateway
        self._now = now

    def _text(self, name: str) -> str:
        value = self._told.get(name, "")
        return value[:_LONGEST] if isinstance(value, str) else ""

    def _number(self, name: str) -> int:
        value = self._told.get(name, 0)
        return value if type(value) is int and value >= 0 else 0

    def line(self) -> JournalLine:
        gid = self._text("gid")
        name = self._text("name")
        return JournalLine(
            at=self._number("at"),
            what=self._text("what"),
            msg_id=self._text("msgId"),
            gid=gid,
            trace_id=self._trace_id,
            peer=self._text("peer"),
            reason=self._text("reason"),
            detail=self._text("detail"),
            host=self._host,
            who=self._known(gid, "") or (f"{name}@{self._host}" if is_name(name) else ""),
            ms=self._number("ms"),
        )

    def view(self) -> MessageView | None:
        if not (is_msg_id(self._text("msgId")) and is_gid(self._text("gid")) and is_gid(self._text("sender"))):
            return None
        try:
            view = self._sent() if self._told.get("row") == "out" else self._received()
        except ValueError:  # a state of a later version
            return None
        return msgspec.structs.replace(view, host=self._host)

    def _sent(self) -> MessageView:
        row = SentRow(
            **self._common(),
            to_host=HostId(self._text("toHost")),
            leaf=Leaf(b""),
            header=b"",
            state=SentState(self._text("state")),
            answered_by=MsgId(self._text("answeredBy")) or None,
            late=self._told.get("late") is True,
        )
        view = sent_view(row, self._gateway, self._now)
        sender = self._known(row.sender, self._host) or self._named() or view.sender
        sentence = f"sent to {group_name(row.to)}; {self._host} counts" if row.is_head else view.sentence
        return msgspec.structs.replace(view, sender=sender, sentence=sentence)

    def _received(self) -> MessageView:
        row = InboxRow(
            **self._common(),
            leaf=Leaf(b""),
            state=InboxState(self._text("state")),
            from_host=HostId(self._text("fromHost")),
            arrived_at=WallMs(self._number("arrivedAt")),
            seq=0,
            size=self._number("size"),
            held=self._text("held"),
        )
        view = inbox_view(row, self._gateway, self._now)
        recipient = self._known(row.gid, self._host) or self._named() or f"{row.gid[:8]}@{self._host}"
        return msgspec.structs.replace(view, recipient=recipient)

    def _common(self) -> dict[str, Any]:
        return {
            "msg_id": MsgId(self._text("msgId")),
            "gid": Gid(self._text("gid")),
            "sender": Gid(self._text("sender")),
            "kind": self._text("kind"),
            "trace_id": self._trace_id,
            "ts": WallMs(self._number("ts")),
            "expires_at": WallMs(self._number("expiresAt")),
            "at": WallMs(self._number("at")),
            "reason": self._text("reason"),
            "detail": self._text("detail"),
            "via": self._text("via"),
            "re": MsgId(self._text("re")) or None,
            "to": self._text("to"),
            "about": self._text("about"),
        }

    def _named(self) -> str:
        """The address it gives to an entity of its own; nobody else's name is its to give."""
        name, _, host = self._text("name").partition("@")
        return f"{name}@{host}" if is_name(name) and host == self._host else ""

    def _known(self, gid: str, host: str) -> str:
        if host and gid == gateway_of(self._gateway.settings.me.fleet_id, HostId(host)):
            return host  # its daemon, which takes orders
        known = self._gateway.roster.knows(Gid(gid))
        return self._gateway.roster.address(Gid(gid), HostId(host)) if known else ""
