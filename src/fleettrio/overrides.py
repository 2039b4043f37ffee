"""Settings from the environment: `FLEETTRIO_<SECTION>_<KEY>` stands for a key of a section of `fleettrio.toml`.

A variable that looks like one of ours and is none is a problem, with the setting that was probably meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from fleettrio.toml_section import nearest

__all__ = ("apply_overrides", "override_keys")

Sections: TypeAlias = Mapping[str, type[msgspec.Struct]]


def override_keys(sections: Sections) -> dict[str, tuple[str, str]]:
    """Every override: `FLEETTRIO_<SECTION>_<KEY>` to its section and key."""
    return {
        f"FLEETTRIO_{section}_{field.name}".upper(): (section, field.name)
        for section, kind in sections.items()
        for field in msgspec.structs.fields(kind)
    }


def apply_overrides(
    tables: dict[str, dict[str, Any]], env: Mapping[str, str], sections: Sections, problems: list[str]
) -> None:
    """Put what `env` says over what the file says, in `tables`; each variable that cannot be used is a problem."""
    keys = override_keys(sections)
    prefixes = tuple(f"FLEETTRIO_{section}_".upper() for section in sections)
    for variable in sorted(env):
        if variable in keys:
            section, key = keys[variable]
            try:
                value = _from_text(getattr(sections[section](), key), env[variable])
            except ValueError as error:
                problems.append(f"{variable}: {error}")
            else:
                tables.setdefault(section, {})[key] = value
        elif variable.startswith(prefixes):
            problems.append(f"{variable}: no such setting{nearest(variable, keys)}")
        elif near := _misspelt(variable, keys):
            problems.append(f'{variable}: no such setting; did you mean "{near}"?')


def _misspelt(variable: str, keys: Mapping[str, object]) -> str:
    """The setting that a variable with an unknown section was meant to be; empty when it is none of ours."""
    prefix, _, word = variable.partition("_")
    if prefix != "FLEETTRIO":
        return ""
    # Without the prefix, which would make all of them alike.
    near = difflib.get_close_matches(word, [key.partition("_")[2] for key in keys], n=1, cutoff=0.8)
    return f"FLEETTRIO_{near[0]}" if near else ""


def _from_text(default: object, text: str) -> Any:
    """A TOML value of the same type as `default`; lists are separated by commas."""
    for kind, read in _READERS:
        if isinstance(default, kind):
            return read(text)
    return text


def _read_bool(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise ValueError(f"{text!r} is neither true nor false")
    return words[text.lower()]


def _read_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _read_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


_READERS: tuple[tuple[type, Callable[[str], Any]], ...] = (
    (bool, _read_bool),  # before int, which a bool is too
    (int, _read_int),
    (float, _read_float),
    (tuple, _read_list),
)
