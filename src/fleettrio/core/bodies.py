"""Which bodies leave this host: something to read, and not more than it sends."""

from __future__ import annotations

from fleettrio.core.actions import Fail
from fleettrio.errors import USAGE

__all__ = ("unfit",)


def unfit(call: int, body: bytes, limit: int, what: str = "body") -> Fail | None:
    """The end of a call whose body cannot be sent; `what` says what it would have been."""
    if not body or body.isspace():
        return Fail(call, USAGE, "empty", f"the {what} is empty: nothing was sent", "write it as the last argument")
    if len(body) > limit:
        text = f"the {what} has {len(body)} bytes; this host sends at most {limit}"
        return Fail(call, USAGE, "oversize", text, "put it into a file or a commit and send where it is")
    return None
