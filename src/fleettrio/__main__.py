"""`fleettrio`, and `python -m fleettrio`: the programs that must start in a moment are chosen before all else loads."""

from __future__ import annotations

import sys

__all__ = ("main",)


def main() -> None:
    """Run what the command line asks for, and exit with its code: 130, quietly, by Ctrl-C while it loads."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> None:
    if sys.argv[1:2] == ["mcp"]:
        from fleettrio.clients.mcp_shim import main as serve

        sys.exit(serve(sys.argv[2:]))
    if sys.argv[1:2] == ["hook"]:
        from fleettrio.clients.hook import main as hook

        del sys.argv[1]
        hook()
    from fleettrio.clients.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
