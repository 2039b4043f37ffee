"""A table of a TOML file as a frozen type: every good value taken, each bad one a problem of its own, with its key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from fleettrio.complaints import complaint

__all__ = ("decode_section", "nearest")

_Section = TypeVar("_Section", bound=msgspec.Struct)


def decode_section(kind: type[_Section], name: str, table: Mapping[str, Any], problems: list[str]) -> _Section:
    """The section with every good value in it; each bad one becomes a problem of its own."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    good: dict[str, Any] = {}
    for key, value in table.items():
        if key not in fields:
            problems.append(f"{name}.{key}: no such key{nearest(key, fields)}")
            continue
        try:
            good[key] = msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            said = complaint(error, f"{name}.{key}")
            problems.append(f"{said} (it is {msgspec.json.encode(value).decode()})" if _showable(value) else said)
    return kind(**good)


def _showable(value: Any) -> bool:
    """Numbers and switches are worth repeating; a text may be a secret that strayed into the wrong key."""
    return isinstance(value, int | float | bool)


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?`, or the whole list when nothing is near."""
    known = tuple(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else f" (there are: {' '.join(known)})"
