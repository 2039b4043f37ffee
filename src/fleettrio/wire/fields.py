"""The fields of what a person brings to a host, one by one: of the fleet file and of the host line.

What is not as it must be is a `ConfigError` that names the field and, first of all, `what` it is in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from fleettrio.errors import ConfigError, MalformedEnvelope
from fleettrio.wire.plain import load_plain

__all__ = ("fail", "load", "maps", "number", "octets", "text")

_MAX_NUMBER = 2**53
_DEPTH = 5
"""Containers in containers: map, hosts, host, keys, key."""


def fail(problem: str, hint: str = "") -> NoReturn:
    raise ConfigError([problem], hint=hint)


def load(data: bytes, what: str, limit: int) -> dict[str, Any]:
    try:
        return load_plain(data, what=what, limit=limit, depth=_DEPTH)
    except MalformedEnvelope as error:
        raise ConfigError([str(error)], hint="the file or line was damaged, or is something else") from None


def text(fields: Mapping[str, Any], name: str, what: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        fail(f"{what}: `{name}` must be text")
    return value


def number(fields: Mapping[str, Any], name: str, what: str, *, least: int = 0) -> int:
    value = fields.get(name)
    if type(value) is not int or not least <= value <= _MAX_NUMBER:
        fail(f"{what}: `{name}` must be a number from {least}")
    return value


def octets(fields: Mapping[str, Any], name: str, what: str, length: int | None = None) -> bytes:
    value = fields.get(name)
    if not isinstance(value, bytes) or (length is not None and len(value) != length):
        fail(f"{what}: `{name}` must be bytes" + (f", {length} of them" if length else ""))
    return value


def maps(fields: Mapping[str, Any], name: str, what: str) -> list[Mapping[str, Any]]:
    value = fields.get(name)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        fail(f"{what}: `{name}` must be a list of maps")
    return value
