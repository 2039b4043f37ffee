"""What this host remembers, in one SQLite file."""

from __future__ import annotations

from fleettrio.store.contents import StoreContents
from fleettrio.store.pruning import Pruned
from fleettrio.store.store import Store, open_store
from fleettrio.store.tables import StoredMessage
from fleettrio.store.writer import Ticket

__all__ = ("Pruned", "Store", "StoreContents", "StoredMessage", "Ticket", "open_store")
