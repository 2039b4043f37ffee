"""Which implementation is in use, and why."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.accel.twins import COMPILED, TWINS

from fleettrio import _accel


def chosen(*lines: str, **environment: str) -> list[str]:
    """`IMPLEMENTATION` and `PROBLEM` in a fresh process that first runs `lines`."""
    script = "\n".join((*lines, "from fleettrio import _accel", "print(_accel.IMPLEMENTATION, _accel.PROBLEM, sep='|')"))
    clean = {name: value for name, value in os.environ.items() if name != "FLEETTRIO_NO_EXTENSIONS"}
    run = subprocess.run(
        [sys.executable, "-c", "import sys\n" + script],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip().split("|")


def test_what_accel_gives_is_the_implementation_it_names() -> None:
    expected = os.environ.get("FLEETTRIO_EXPECT", _accel.IMPLEMENTATION)
    assert expected == _accel.IMPLEMENTATION, f"expected {expected}: {_accel.PROBLEM}"
    module = TWINS[-1]
    assert module.__name__ == {"compiled": "fleettrio._fast", "pure": "fleettrio._pure"}[_accel.IMPLEMENTATION]
    for name in ("SeenSet", "decode_header", "encode_header", "leaf_of", "merkle", "root_of", "verify_many"):
        assert getattr(_accel, name) is getattr(module, name)


def test_both_have_the_same_names_and_documentation() -> None:
    pure = TWINS[0]
    for compiled in COMPILED:
        for name in compiled.__all__:
            assert getattr(pure, name).__doc__ in getattr(compiled, name).__doc__


@pytest.mark.parametrize("compiled", COMPILED, ids=["compiled"] * len(COMPILED))
def test_the_compiled_one_really_loads_in_a_fresh_process(compiled: object) -> None:
    assert chosen() == ["compiled", ""]


def test_the_environment_turns_it_off() -> None:
    assert chosen(FLEETTRIO_NO_EXTENSIONS="1") == ["pure", ""]


@pytest.mark.parametrize("compiled", COMPILED, ids=["compiled"] * len(COMPILED))
def test_without_the_functions_of_libsodium_the_pure_one_is_used_and_says_so(compiled: object) -> None:
    implementation, problem = chosen(
        "import _ctypes, nacl._sodium, nacl.bindings", "nacl._sodium.__file__ = _ctypes.__file__"
    )
    assert implementation == "pure"
    assert problem == "the library of PyNaCl has no crypto_sign_ed25519_verify_detached"
