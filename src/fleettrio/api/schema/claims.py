"""Claims: who works on what."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fleettrio.api.schema.base import Done, Line, Methods, Path

__all__ = ("Claim", "Claimed", "Claims", "ListClaims", "Release")


class Claim(msgspec.Struct, forbid_unknown_fields=True):
    """`host:key` is decided by that host, a key without a host by this one."""

    key: Path
    lapsed: bool = False
    """Take it although another holds it, if its holder has not been seen for 10 minutes."""


class Claimed(msgspec.Struct, kw_only=True):
    key: str
    arbiter: str
    """The host that decided."""
    granted: bool
    holder: str
    """`name@host`."""
    fence: int
    at: int
    lapsed: bool


class Release(msgspec.Struct, forbid_unknown_fields=True):
    key: Path
    fence: Annotated[int, Meta(ge=1)] | None = None
    """Only if it is still this grant."""


class ListClaims(msgspec.Struct, forbid_unknown_fields=True):
    host: Line = ""
    """Whose claims; default: this host's."""


class Claims(msgspec.Struct):
    arbiter: str
    claims: list[Claimed]
    cut: bool


METHODS: Methods = {"claim": (Claim, Claimed), "release": (Release, Done), "claims": (ListClaims, Claims)}
