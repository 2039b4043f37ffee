"""The two lanes to a real broker, and which one a session must have."""

from __future__ import annotations

from fleettrio.broker.libraries import why_stock
from fleettrio.broker.port import BrokerSettings

__all__ = ("LANES", "lane_of")

LANES = ("fast", "stock")


def lane_of(settings: BrokerSettings) -> tuple[str, str]:
    """The lane, and why it is not the fast one. Where the libraries are of other versions, both are the stock lane."""
    if not settings.fast_lane:
        return "stock", "the configuration says fast_lane = false"
    return ("stock" if why_stock() else "fast"), why_stock()
