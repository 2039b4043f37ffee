"""The frozen vectors, for parametrised tests."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

__all__ = ("FILE", "VECTORS", "named")

FILE = pathlib.Path(__file__).with_name("wire-v1.json")
VECTORS: dict[str, Any] = json.loads(FILE.read_text())


def named(section: str) -> list[Any]:
    """The cases of a section as pytest parameters, under their names."""
    return [pytest.param(case, id=case["name"]) for case in VECTORS[section]]
