"""What this host remembers, in one SQLite file."""

from __future__ import annotations

from fleettrio.store.pruning import Pruned
from fleettrio.store.queries import StoreContents
from fleettrio.store.store import Store, open_store
from fleettrio.store.tables import JournalRow, StoredMessage
from fleettrio.store.writer import Ticket

__all__ = ("JournalRow", "Pruned", "Store", "StoreContents", "StoredMessage", "Ticket", "open_store")
