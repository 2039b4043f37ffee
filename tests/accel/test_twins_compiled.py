"""What only the compiled implementation promises: other threads go on, nothing leaks, loops stay in C."""

from __future__ import annotations

import html
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import threading
from types import ModuleType

import nacl.signing
import pytest
from tests.accel.twins import COMPILED

import fleettrio

each_compiled = pytest.mark.parametrize("twin", COMPILED, ids=["compiled"] * len(COMPILED))
# Annotating takes the compiler of the language, which whoever installed a wheel does not have.
with_cython = [module for module in COMPILED if importlib.util.find_spec("Cython")]
SOURCE = pathlib.Path(fleettrio.__file__).with_name("_fast.pyx")


@each_compiled
def test_a_second_thread_counts_on_while_signatures_are_verified(twin: ModuleType) -> None:
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
        assert twin.verify_many([item] * 256) == [True] * 256
        during = counted[0] - before
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        counter.join()
    assert during > 100


@each_compiled
def test_nothing_leaks_in_a_fresh_process(twin: ModuleType) -> None:
    script = pathlib.Path(__file__).with_name("leak_script.py")
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("twin", with_cython, ids=["compiled"] * len(with_cython))
def test_no_loop_calls_into_python(twin: ModuleType, tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "_fast.pyx"
    copy.write_text(SOURCE.read_text())
    subprocess.run([sys.executable, "-m", "cython", "-a", str(copy)], check=True, capture_output=True)
    # `cython -a` gives each line a score: how much of Python's own machinery its C code calls.
    page = copy.with_suffix(".html").read_text()
    found = re.findall(r'<pre class="cython line score-(\d+)"[^>]*>.*?(\d+)</span>: (.*?)</pre>', page)
    scores = {int(number): (int(score), html.unescape(re.sub("<[^>]+>", "", text))) for score, number, text in found}
    inside: list[int] = []
    for number, line in enumerate(copy.read_text().splitlines(), start=1):
        indent = len(line) - len(line.lstrip())
        inside = [outer for outer in inside if not line.strip() or indent > outer]
        if re.match(r"\s+(for|while) .*:$", line):
            inside.append(indent)
        if inside:
            assert scores.get(number, (0, ""))[0] == 0, f"line {number}: {scores[number][1]}"
    assert len(scores) > 200
