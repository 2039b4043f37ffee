"""Which delivery a nonce was drawn for: the latest of them, in memory. What an agent shows again names it.

A notice that only says that a message waits names it by its short id, which is a mark as good as a nonce here.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from collections.abc import Iterable

from fleettrio.ids import Gid, MsgId, short_id

__all__ = ("Nonces", "fresh", "nonces_in")

MOST = 8_192
_TAG = re.compile(r"\[fleettrio ([0-9a-f]{8})\]")


def nonces_in(text: str) -> frozenset[str]:
    """What stands in `text` where a frame has its nonce; nobody says that it was drawn here."""
    return frozenset(_TAG.findall(text))


def fresh() -> str:
    """One that nobody could know before, and that is no evidence of anything."""
    return secrets.token_hex(4)


class Nonces:
    def __init__(self) -> None:
        self._drawn: OrderedDict[str, tuple[MsgId, Gid]] = OrderedDict()

    def draw(self, msg_id: MsgId, gid: Gid) -> str:
        """A new one for this delivery."""
        nonce = fresh()
        self._drawn[nonce] = self._drawn[short_id(msg_id)] = (msg_id, gid)
        while len(self._drawn) > MOST:
            self._drawn.popitem(last=False)
        return nonce

    def delivered(self, nonces: Iterable[str], gid: Gid) -> tuple[MsgId, ...]:
        """The messages that these nonces were drawn for, of those delivered to `gid`."""
        found = [self._drawn[nonce] for nonce in nonces if nonce in self._drawn]
        return tuple(dict.fromkeys(msg_id for msg_id, recipient in found if recipient == gid))
