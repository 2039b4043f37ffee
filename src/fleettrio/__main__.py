"""`python -m fleettrio` is the same as `fleettrio`."""

from __future__ import annotations

from fleettrio.clients.cli.main import main

if __name__ == "__main__":
    main()
