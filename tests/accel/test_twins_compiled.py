"""What only the compiled implementation promises: it loads, other threads go on, nothing leaks."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading

import nacl.signing

from tests.accel.twins import COMPILED, chosen

[FAST] = COMPILED


def test_a_second_thread_counts_on_while_signatures_are_verified() -> None:
    key = nacl.signing.SigningKey(bytes(32))
    message = bytes(65536)
    item = (bytes(key.verify_key), key.sign(message).signature, message)
    started, stop, counted = threading.Event(), threading.Event(), [0]

    def count() -> None:
        started.set()
        with open(os.devnull, "wb", buffering=0) as nowhere:
            while not stop.is_set():
                nowhere.write(b"x")  # gives the GIL away at each step
                counted[0] += 1

    counter = threading.Thread(target=count)
    # So long that no switch is ever forced: while we compute, the counter runs only if we give the GIL away too.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        counter.start()
        started.wait()
        before = counted[0]
        assert FAST.verify_many([item] * 256) == [True] * 256
        during = counted[0] - before
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        counter.join()
    assert during > 100


def test_nothing_leaks_in_a_fresh_process() -> None:
    script = pathlib.Path(__file__).with_name("leak_script.py")
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_compiled_one_really_loads_in_a_fresh_process() -> None:
    assert chosen() == ["compiled", ""]


def test_without_the_functions_of_libsodium_the_pure_one_is_used_and_says_so() -> None:
    implementation, problem = chosen(
        "import _ctypes, nacl._sodium, nacl.bindings", "nacl._sodium.__file__ = _ctypes.__file__"
    )
    assert implementation == "pure"
    assert problem == "the library of PyNaCl has no crypto_sign_ed25519_verify_detached"
