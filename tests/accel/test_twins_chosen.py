"""Which implementation is in use, and why."""

from __future__ import annotations

import inspect
import os

from fleettrio import _accel
from tests.accel.twins import COMPILED, TWINS, chosen


def test_what_accel_gives_is_the_implementation_it_names() -> None:
    expected = os.environ.get("FLEETTRIO_EXPECT", _accel.IMPLEMENTATION)
    assert expected == _accel.IMPLEMENTATION, f"expected {expected}: {_accel.PROBLEM}"
    module = TWINS[-1]
    assert module.__name__ == {"compiled": "fleettrio._fast", "pure": "fleettrio._pure"}[_accel.IMPLEMENTATION]
    for name in COMPILED[0].__all__ if COMPILED else ("SeenSet", "decode_header", "verify_many"):
        assert getattr(_accel, name) is getattr(module, name)


def test_both_have_the_same_names_and_documentation() -> None:
    pure = TWINS[0]
    for compiled in COMPILED:
        for name in compiled.__all__:
            assert str(inspect.getdoc(getattr(pure, name))) in str(inspect.getdoc(getattr(compiled, name)))


def test_the_environment_turns_it_off() -> None:
    assert chosen(FLEETTRIO_NO_EXTENSIONS="1") == ["pure", ""]
