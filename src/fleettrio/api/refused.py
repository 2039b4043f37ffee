"""Why another host refused a message, in a sentence that ends with what mends it."""

from __future__ import annotations

import re

from fleettrio.api.reasons import REFUSALS, reason_text
from fleettrio.core.gateway import Gateway
from fleettrio.core.rows import SentRow
from fleettrio.core.said import REFUSED
from fleettrio.core.words import TRUST_REASONS
from fleettrio.ids import short_id
from fleettrio.wire.envelope import Kind
from fleettrio.wire.fleet import grant_for

__all__ = ("NOT_GRANTED", "REVOKED", "refusal_of", "why_refused")

NOT_GRANTED = "not-authorised"
REVOKED = (
    "this host's key was revoked by the fleet's owner; to come back it needs a new host id in a new FLEETTRIO_HOME"
    " (`fleettrio init --host NEWID`), which the owner adds"
)
"""For a revoked host. An import mends nothing there, so nothing else may be advised."""


def why_refused(row: SentRow, recipient: str, gateway: Gateway) -> str:
    """Why the host of `recipient` refused what it was sent, and what mends it."""
    reason = refusal_of(row)
    if reason == NOT_GRANTED:
        return _not_granted(row, gateway)
    if reason in TRUST_REASONS:
        return f"{reason}{f' ({row.detail})' if row.detail else ''}. {_mend(reason, row)}"
    return reason_text(REFUSALS, reason, row.detail, who=recipient, host=row.to_host, short=short_id(row.msg_id))


def refusal_of(row: SentRow) -> str:
    """The reason for which another host refused it; empty when none did."""
    return row.reason.removeprefix(REFUSED).partition(" at ")[0] if row.reason.startswith(REFUSED) else ""


def _not_granted(row: SentRow, gateway: Gateway) -> str:
    """Which grant is missing, and the command that gives it beside those that this host has."""
    me, grant = gateway.settings.me.host, grant_for(row.kind)
    if row.kind == Kind.SPAWN and (named := re.search(r"spawn:[a-z0-9-]+", row.detail)):
        grant = named[0]
    grants = ",".join(sorted(gateway.trust.fleet.grants(me) | {grant}))
    what = row.detail or f"{me} was not granted {grant}"
    line = f"LINE is what `fleettrio init` prints on {me}"
    return f"{what}; on the owner's host: `fleettrio host add LINE --grants {grants}` ({line})"


def _mend(reason: str, row: SentRow) -> str:
    host = row.to_host
    match reason:
        case "unknown-host" | "key-generation":
            return f"On {host}: `fleettrio host import FILE` with your fleet file (`fleettrio host export`)"
        case "wrong-fleet":
            return f"The two hosts are of different fleets: compare `fleettrio host list` here and on {host}"
        case "revoked":
            return REVOKED[0].upper() + REVOKED[1:]
        case _:
            return f"Compare the keys: `fleettrio host list` here and on {host}"
