"""Ctrl-C before a command has begun: while it is still being loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

STOPPED_AT = """
import os, signal, sys
from fleettrio.__main__ import main

class CtrlC:
    def find_spec(name, *_):
        if name == sys.argv[-1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC)
main()
"""


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("status", "fleettrio.clients.cli.main"),
        ("status", "click"),
        ("status", "fleettrio.errors"),
        ("mcp", "fleettrio.clients.mcp_shim"),
        ("hook", "fleettrio.clients.hook"),
    ],
)
def test_a_command_stopped_while_it_loads_ends_quietly(command: str, module: str) -> None:
    program = [sys.executable, "-c", STOPPED_AT, command, module]
    done = subprocess.run(program, capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
