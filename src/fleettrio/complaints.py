"""What a decoder says of a bad value, in plain words: `must be a list, not a text`."""

from __future__ import annotations

import re

import msgspec

__all__ = ("complaint",)

_TYPES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "bytes": "base64",
    "null": "nothing",
}
_BOUNDS = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}
_PLACE = re.compile(r"(?P<what>.+) - at `\$\.?(?P<place>[^`]*)`", re.DOTALL)
_TYPE = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>[^`]+)`")
_BOUND = re.compile(r"Expected `(?P<type>int|float)` (?P<sign>[<>]=?) (?P<bound>\S+)")
_LENGTH = re.compile(r"Expected `(?P<type>\w+)` of length (?P<sign>[<>]=?) (?P<bound>\d+)")
_CHOICE = re.compile(r"Expected `str` matching regex '\^\((?P<words>[\w|-]+)\)\$'")


def complaint(problem: msgspec.ValidationError, name: str = "") -> str:
    """One sentence. `name`: of the value, put before the place in it that is meant, if there is one.

    What is not known is said as it was said to us.
    """
    said = str(problem)
    if found := _PLACE.fullmatch(said):
        said, place = found["what"], found["place"]
        name = f"{name}{'' if place.startswith('[') or not name else '.'}{place}"
    said = _must(said) if said.startswith("Expected") else said
    return f"{name}: {said}" if name else said


def _must(said: str) -> str:
    if found := _TYPE.fullmatch(said):
        return f"must be {_kinds(found['wanted'])}, not {_kinds(found['got'])}"
    if found := _BOUND.fullmatch(said):
        bound = f"{float(found['bound']):.15g}"
        return f"must be {_BOUNDS[found['sign']]} {bound}"
    if found := _LENGTH.fullmatch(said):
        unit = "characters" if found["type"] == "str" else "entries"
        return f"must have {_BOUNDS[found['sign']]} {found['bound']} {unit}"
    if found := _CHOICE.fullmatch(said):
        return f"must be one of {found['words'].replace('|', ', ')}"
    return f"is not right: {said}"


def _kinds(names: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in names.split(" | "))
