"""Which ways there are into an agent, as they are shown and as they are tried."""

from __future__ import annotations

import msgspec

from fleettrio.core.entity import Entity
from fleettrio.ids import Gid
from fleettrio.local.transports import open_transport, ways_of

OPENCODE = Entity(
    gid=Gid("g"), name="w", salt=b"", harness="opencode", transport="tmux", target="%3", api="http://127.0.0.1:4096",
    session="ses_1",
)  # fmt: skip


def test_what_is_shown_is_what_is_tried_best_first() -> None:
    for entity, names in (
        (OPENCODE, "http, tmux"),
        (msgspec.structs.replace(OPENCODE, transport="herdr", target="/run/h.sock#term-1"), "http, herdr"),
        (msgspec.structs.replace(OPENCODE, session=""), "tmux"),
        (msgspec.structs.replace(OPENCODE, harness="claude"), "tmux"),
        (msgspec.structs.replace(OPENCODE, transport="pull", target=""), "pull"),
    ):
        assert ", ".join(ways_of(entity)) == names == open_transport(entity, {}).name
