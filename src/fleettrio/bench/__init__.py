"""`fleettrio bench`: what it costs and how fast it is, beside peers that do the same work in the same run."""

from __future__ import annotations

__all__ = ("BENCHMARKS",)

BENCHMARKS = {
    "micro": "fleettrio.bench.micro",
    "wire": "fleettrio.bench.wire",
    "hop": "fleettrio.bench.hop",
    "latency": "fleettrio.bench.latency",
    "local": "fleettrio.bench.local",
    "scale": "fleettrio.bench.scale",
    "curve": "fleettrio.bench.curve",
}
"""Name → the module with `measure(context) -> Iterator[Row]`, in the order of `all`."""
