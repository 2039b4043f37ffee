"""Ask and answer: a question to somebody who listens now, its answer the result of the call that asked."""

from __future__ import annotations

import msgspec

from fleettrio.api.schema.base import Line, Methods, Seconds
from fleettrio.api.schema.messages import Waited
from fleettrio.api.schema.sends import SendResult

__all__ = ("METHODS", "Answer", "Ask")


class Ask(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    to: Line
    body: bytes
    timeout_s: float = 600.0
    """How long the answer is waited for in all; at most an hour."""
    wait: bool = True
    """False: no call waits for the answer; it is put into the asker, while its turn goes on."""
    limit_s: Seconds = 50.0
    """How long this call waits, at most 50; then it says "call again", which is `wait` with the id of the question."""


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    id: Line
    body: bytes


METHODS: Methods = {
    "ask": (Ask, Waited),
    "answer": (Answer, SendResult),
}
