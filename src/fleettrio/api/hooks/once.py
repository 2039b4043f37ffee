"""A hook that runs twice for one event says it twice: the same words of the same session within a moment are one."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from fleettrio.ids import Gid

__all__ = ("Once",)

MOMENT_S = 1.0
"""Two hooks of one event run side by side, and no turn of a model is as short as that."""
MOST = 1024


class Once:
    def __init__(self) -> None:
        self._heard: OrderedDict[bytes, float] = OrderedDict()

    def is_repeat(self, gid: Gid, data: bytes, now_s: float) -> bool:
        """True when `data` was told of `gid` a moment ago; from the first time on it counts as told."""
        key = hashlib.blake2b(data, digest_size=16, key=gid.encode()[:64]).digest()
        at = self._heard.get(key)
        if at is not None and now_s - at < MOMENT_S:
            return True
        self._heard[key] = now_s
        self._heard.move_to_end(key)
        while len(self._heard) > MOST:
            self._heard.popitem(last=False)
        return False
