"""What every part of the local socket uses: bounded words and numbers, the greeting, the empty answers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = (
    "Done",
    "Empty",
    "Hello",
    "Line",
    "Path",
    "Pid",
    "Seconds",
    "Welcome",
)

Line = Annotated[str, Meta(max_length=256)]
"""A name, an address, an id, a label: room for every good one, and none that floods a log."""
Path = Annotated[str, Meta(max_length=4096)]
Seconds = Annotated[float, Meta(ge=0)]
Pid = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Empty(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


class Done(msgspec.Struct):
    """It was done; `detail` says what, in one sentence."""

    detail: str = ""


class Hello(msgspec.Struct, forbid_unknown_fields=True):
    """Who calls: the token if there is one (an agent's, the operator's), and the client's version."""

    token: Line = ""
    version: Line = ""


class Welcome(msgspec.Struct):
    host: str
    version: str
    caller: str
    """Name of the entity this connection speaks for, empty when it has no identity (see `caller_problem`)."""
    gid: str
    is_person: bool
    caller_problem: str = ""
    pid: int = 0
    is_nobody: bool = False
    """Nothing says who calls, and nothing that it is an agent: a script without a terminal and a token."""


Methods = dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]]
"""Method → its parameters, its result."""

METHODS: Methods = {
    "hello": (Hello, Welcome),
}
