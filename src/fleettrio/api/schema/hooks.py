"""What a harness's hook tells the daemon, and what it is to print."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fleettrio.api.schema.base import Line, Methods

__all__ = ("METHODS", "Hook", "HookAnswer")


class Hook(msgspec.Struct, forbid_unknown_fields=True):
    """An event of a harness, as it gave it to its hook.

    `input` is what stood on the hook's stdin, as it was; `env` the parts of its environment that tell where it runs,
    `NAME=value` separated by NUL.
    """

    harness: Line
    input: Annotated[bytes, Meta(max_length=1_400_000)] = b""
    env: Annotated[bytes, Meta(max_length=65_536)] = b""


class HookAnswer(msgspec.Struct):
    """What the hook prints, byte for byte, and exits with. The hook reads it by this order of the fields."""

    stdout: bytes = b""
    stderr: bytes = b""
    code: int = 0


METHODS: Methods = {
    "hook": (Hook, HookAnswer),
    "hook.wait": (Hook, HookAnswer),
}
