"""Envelope to AMQP header table (`docs/decisions/verbatim-header.md`).

Reading is `_accel`'s, and never raises.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleettrio._accel import ContentHeader, RawHeaders, read_content_header, read_header_table, table_size
from fleettrio.errors import MalformedEnvelope

__all__ = (
    "MAX_TABLE",
    "ContentHeader",
    "RawHeaders",
    "read_content_header",
    "read_header_table",
    "table_for",
    "table_size",
)

MAX_TABLE = 8 * 1024
"""Bytes of a header table on the wire. Its frame cannot be split: one over the frame size closes the connection."""


def table_for(
    header: bytes,
    sig: bytes,
    proof: bytes = b"",
    *,
    hop: bytes = b"",
    hints: Mapping[str, str] | None = None,
) -> dict[str, bytes | str]:
    """The header table of a message: `header`, `sig`, `proof`, `hop` verbatim, then the unsigned `hints` as text.

    `proof` and `hop` are left out when empty. Raises `MalformedEnvelope` when the table would exceed `MAX_TABLE`.
    """
    table: dict[str, bytes | str] = {"fleet": header, "sig": sig}
    if proof:
        table["proof"] = proof
    if hop:
        table["hop"] = hop
    table.update(hints or {})
    size = table_size(table)
    if size > MAX_TABLE:
        raise MalformedEnvelope(
            f"the header table has {size} bytes, the limit is {MAX_TABLE}",
            hint="Shorten the optional fields of the envelope (causal, claim).",
        )
    return table
