"""Several brokers, tried in turn, beginning with the last one that took us."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fleettrio.broker.login import Address, addresses
from fleettrio.broker.port import BrokerSettings
from fleettrio.errors import SessionLost

__all__ = ("Rotation",)

T = TypeVar("T")


class Rotation:
    """Remembers for each list of URIs which one took us last."""

    def __init__(self) -> None:
        self._last_good: dict[tuple[str, ...], int] = {}

    async def first(self, settings: BrokerSettings, connect: Callable[[Address], Awaitable[T]]) -> T:
        """What `connect` gave for the first broker of `settings.uris` that takes us.

        Raises `ConfigError` for settings that cannot be used; when none takes us, what `connect` raised if that is the
        same of each, else `SessionLost`. Cancellation goes through.
        """
        choices = addresses(settings)
        first = self._last_good.get(settings.uris, 0)
        refusals: list[SessionLost] = []
        for place in (*range(first, len(choices)), *range(first)):
            try:
                connected = await connect(choices[place])
            except SessionLost as refusal:
                refusals.append(refusal)
                continue
            self._last_good[settings.uris] = place
            return connected
        kinds = {type(refusal) for refusal in refusals}
        kind = kinds.pop() if len(kinds) == 1 else SessionLost
        raise kind("; ".join(map(str, refusals)), hint=refusals[0].hint) from refusals[0]
