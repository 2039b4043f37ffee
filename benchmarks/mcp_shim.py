"""What `fleettrio mcp` costs: its start over that of an empty Python, and the memory of one that is at work.

python benchmarks/mcp_shim.py [ROUNDS]    with fleettrio importable; prints milliseconds (medians) and MiB
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from fleettrio.testing.costs import beside
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import COMMAND, Host

SHIM = (*COMMAND, "mcp")
HANDSHAKE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"bench","version":"1"}}}\n'
)
CALL = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fleet_list","arguments":{}}}\n'


def measure_start(env: dict[str, str], rounds: int) -> None:
    empties, shims = beside(SHIM, env, given=[b""] * rounds)
    for what, empty, shim in zip(("on the wall", "of the processor"), empties, shims, strict=True):
        print(
            f"start {what}: python -c pass {empty:.0f} ms, fleettrio mcp {shim:.0f} ms, over it {shim - empty:.0f} ms"
        )


def measure_work(host: Host) -> None:
    """A shim in the middle of a session: memory, and the round trip of a call."""
    process = host.popen("mcp")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(HANDSHAKE)
    process.stdin.flush()
    began = time.perf_counter()
    process.stdout.readline()
    print(f"initialize, with the SDK loaded for it: {(time.perf_counter() - began) * 1000:.0f} ms")
    times = []
    for _ in range(30):
        began = time.perf_counter()
        process.stdin.write(CALL)
        process.stdin.flush()
        process.stdout.readline()
        times.append((time.perf_counter() - began) * 1000)
    facts = Path(f"/proc/{process.pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in facts.splitlines() if line.startswith("VmHWM"))
    print(f"a call of fleet_list: {statistics.median(times):.1f} ms; memory at its highest: {peak / 1024:.1f} MiB")
    process.communicate()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with Fleet(None, "alpha") as fleet:
        measure_start(fleet["alpha"].env, rounds)
        measure_work(fleet["alpha"])


if __name__ == "__main__":
    main()
