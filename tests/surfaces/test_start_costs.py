"""What a hook and the MCP shim cost to start, beside an empty Python: of the processor, which no other work changes.

The time on the wall is measured by `benchmarks/hook_start.py` and `benchmarks/mcp_shim.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from fleettrio.testing.costs import beside
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import COMMAND, Host

ROUNDS = 15
HOOK = (sys.executable, "-P", "-m", "fleettrio.clients.hook", "claude")
MOST_TIMES, MOST_OVER_MS = 3.0, 100.0


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """With 100 messages that wait for somebody else."""
    with Fleet(None, "alpha") as fleet:
        alpha = fleet["alpha"]
        alpha.ok("attach", "--name", "others")
        lines = [{"to": "others", "text": f"message {number}"} for number in range(100)]
        alpha.ok("send", "--lines", given=b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        yield alpha


def prompts() -> list[bytes]:
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "hello", "session_id": "s"}
    return [json.dumps({**event, "prompt_id": str(number)}).encode() for number in range(ROUNDS)]


@pytest.mark.parametrize("daemon", ["up", "down"])
def test_a_hook_is_at_most_three_times_an_empty_python(host: Host, daemon: str) -> None:
    token = host.ok("attach", "--name", f"agent-{daemon}", "--harness", "claude", "--json").json()["token"]
    if daemon == "down":
        host.stop()
    empty, hook = beside(HOOK, {**host.env, "FLEETTRIO_TOKEN": token}, given=prompts())
    assert hook.cpu <= MOST_TIMES * empty.cpu, (empty, hook)


def test_the_shim_starts_within_a_tenth_of_a_second_over_an_empty_python(host: Host) -> None:
    empty, shim = beside([*COMMAND, "mcp"], host.env, given=[b""] * ROUNDS)
    assert shim.cpu - empty.cpu <= MOST_OVER_MS, (empty, shim)
