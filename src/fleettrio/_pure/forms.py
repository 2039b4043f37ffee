"""The syntax of every name and id of the wire."""

from __future__ import annotations

import re

__all__ = ("RESERVED_NAMES", "is_gid", "is_key", "is_msg_id", "is_name", "is_trace_id", "is_word")

RESERVED_NAMES = frozenset({"human", "user", "operator", "system", "gateway", "all", "last"})

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_GID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_MSG_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_WORD = re.compile(r"[A-Z][A-Z_]{0,23}")


def is_name(value: str) -> bool:
    """Whether `value` may name an agent, a group, a profile or a host: the syntax holds and it is not reserved."""
    return _NAME.fullmatch(value) is not None and value not in RESERVED_NAMES


def is_gid(value: str) -> bool:
    """Whether it is a UUID version 8 in lower case."""
    return _GID.fullmatch(value) is not None


def is_msg_id(value: str) -> bool:
    """Whether it is a UUID version 7 in lower case."""
    return _MSG_ID.fullmatch(value) is not None


def is_trace_id(value: str) -> bool:
    """Whether it is 32 hex digits in lower case."""
    return _TRACE_ID.fullmatch(value) is not None


def is_word(value: str) -> bool:
    """Whether it is a kind's name: 1 to 24 capitals and underscores."""
    return _WORD.fullmatch(value) is not None


def is_key(value: str) -> bool:
    """Whether it has the form of a routing key."""
    prefix, dot, rest = value.partition(".")
    if not dot:
        return is_gid(value) or is_name(value)
    if prefix == "roster":
        host, _, entity = rest.partition(".")
        return is_name(host) and (entity == "_gateway" or is_gid(entity))
    return (prefix == "broadcast" and rest == "all") or (prefix in ("broadcast", "lead") and is_name(rest))
