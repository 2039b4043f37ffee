"""What a hook costs from start to exit, against `python -c pass`: `python benchmarks/hook_start.py [--rounds 30]`.

The daemon is up with nothing for the agent, up with 100 messages held for others, down, and deaf (it accepts and never
answers). Prints the median of each in milliseconds and how many times `python -c pass` that is; a deaf daemon has a
bound in milliseconds instead. Exit 1 when one is over its bound.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Callable, Mapping

from fleettrio.testing.costs import beside
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host

MOST_TIMES = 3.0
DEAF_MOST_MS = 300.0
HELD = 100
HOOK = [sys.executable, "-P", "-m", "fleettrio.clients.hook", "claude"]


def prompt() -> bytes:
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "hello", "session_id": "s"}
    return json.dumps({**event, "prompt_id": str(uuid.uuid4())}).encode()


def compare(name: str, rounds: int, env: Mapping[str, str], *, bound_ms: float = 0.0) -> bool:
    """One line of the table."""
    empty, hook = beside(HOOK, env, given=[prompt() for _ in range(rounds)])
    base, spent = empty.wall, hook.wall
    is_good = spent < bound_ms if bound_ms else spent <= MOST_TIMES * base
    bound = f"{bound_ms:.0f} ms" if bound_ms else f"{MOST_TIMES:.0f}x"
    print(f"{name:24} {base:8.1f} {spent:8.1f} {spent / base:7.2f}x  at most {bound:7} {'ok' if is_good else 'OVER'}")
    return is_good


def fill(host: Host) -> None:
    token = json.loads(host.ok("attach", "--name", "others", "--json").out)["token"]
    for number in range(HELD):
        host.ok("send", "others", f"message {number}", token=host.operator_token)
    assert token


def end(host: Host) -> None:
    host.thaw()
    host.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    with Fleet(None, "alpha", more="") as fleet:
        host = fleet["alpha"]
        attached = host.ok("attach", "--name", "agent", "--harness", "claude", "--json").json()
        env = {**host.env, "FLEETTRIO_TOKEN": attached["token"]}
        print(f"{'daemon':24} {'pass ms':>8} {'hook ms':>8}   ratio  (median of {rounds})")
        cases: list[tuple[str, Callable[[], object], float]] = [
            ("up, nothing waits", lambda: None, 0.0),
            (f"up, {HELD} held for others", lambda: fill(host), 0.0),
            ("deaf", host.freeze, DEAF_MOST_MS),
            ("down", lambda: end(host), 0.0),
        ]
        results = []
        for name, prepare, bound_ms in cases:
            prepare()
            results.append(compare(name, rounds, env, bound_ms=bound_ms))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
