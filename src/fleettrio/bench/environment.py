"""The machine and the versions that figures were made on; every result and every CSV line names them."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import platform
import subprocess
import sys

from fleettrio import __version__, _accel
from fleettrio.bench.context import checkout
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.broker_process import BrokerNodeError

__all__ = ("commit", "cores", "environment", "load", "machine", "python")

_LIBRARIES = ("aio-pika", "aiormq", "pamqp", "trio", "pynacl", "cbor2", "pika", "uvloop", "faststream")


def environment(broker: BrokerNode | None = None, load_before: str = "") -> dict[str, str]:
    """By name: what a reader must know before two figures are compared.

    `load_before` is what the machine had to do when the run began; without it, what it has to do now.
    """
    return {
        "commit": commit(),
        "machine": machine(),
        "load": load_before or load(),
        "python": python(),
        "fleettrio": __version__,
        "compiled": _accel.IMPLEMENTATION + (f" ({_accel.PROBLEM})" if _accel.PROBLEM else ""),
        "broker": "none" if broker is None else f"RabbitMQ {_broker_version(broker)}, on the same machine",
        **{name: version for name in _LIBRARIES if (version := _version(name))},
    }


def commit() -> str:
    """The commit of the sources, with a `+` when they differ from it; empty when they are not in a checkout."""
    root = checkout()
    if root is None:
        return ""
    try:
        short = _git(root, "rev-parse", "--short=10", "HEAD")
        return short + ("+" if _git(root, "status", "--porcelain", "--untracked-files=no", "--", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def cores() -> int:
    """How many this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> str:
    """Programs that wanted to run: on average of the last minute, of five, of fifteen."""
    return " ".join(f"{average:.1f}" for average in os.getloadavg())


def machine() -> str:
    """Cores, processor and system in one line, without a name of the machine."""
    return f"{os.cpu_count()} × {_processor()}, {platform.system()} {platform.machine()}"


def python() -> str:
    """The interpreter and where it is from: one built without a profile of itself is slower in everything."""
    origin = "the system's" if sys.base_prefix == "/usr" else "not the system's"
    return f"{platform.python_implementation()} {platform.python_version()}, {origin}"


def _processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _broker_version(broker: BrokerNode) -> str:
    try:
        return broker.evaluate("rabbit_misc:version().").removeprefix("{ok, ").removesuffix("}").strip('"')
    except BrokerNodeError:  # too busy to say; no reason to lose what was measured
        return "of unknown version"


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _git(root: pathlib.Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()
