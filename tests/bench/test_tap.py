"""What the wire benchmark counts: frames however they are cut, and the signed messages among them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from fleettrio.bench.patches import patched
from fleettrio.bench.tap import FrameTap
from fleettrio.testing.hosts import clean_environment
from fleettrio.testing.raw_client import properties

GREETING = b"AMQP\x00\x00\x09\x01"


def frame(kind: int, payload: bytes) -> bytes:
    return bytes([kind]) + b"\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce"


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_frames_are_counted_wherever_they_are_cut(step: int) -> None:
    tap = FrameTap()
    heard = tap(True)
    data = GREETING + frame(1, b"method") + frame(3, os.urandom(300)) + frame(8, b"")
    for start in range(0, len(data), step):
        heard(data[start : start + step])
    assert (tap.size, tap.frames) == (len(data), 3)
    tap.reset()
    assert (tap.size, tap.frames) == (0, 0)


def test_a_message_without_a_signature_is_counted_and_no_message_of_ours() -> None:
    tap = FrameTap()
    header = b"\x00\x3c\x00\x00" + (4).to_bytes(8, "big") + properties()
    tap(True)(GREETING + frame(1, b"publish") + frame(2, header) + frame(3, b"body"))
    assert (tap.frames, tap.published) == (3, [])


def test_a_patch_that_breaks_ends_the_program_instead_of_changing_nothing(tmp_path: pathlib.Path) -> None:
    for code, exit_code in (("import no_such_module", 70), ("x = 1", 0)):
        env = {**clean_environment(), **patched(tmp_path, code)}
        assert subprocess.run([sys.executable, "-c", "pass"], env=env, check=False).returncode == exit_code
