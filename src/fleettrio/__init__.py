"""fleettrio: the gateway daemon that carries messages between AI coding agents, on one host and between hosts."""

from __future__ import annotations

__all__ = ("__version__",)

__version__ = "0.1.0"
