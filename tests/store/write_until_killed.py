"""Child process: commits messages one after the other, several at a time, and prints each that is on the disk."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from fleettrio.store import open_store
from tests.store.store_rows import NOW, commit


async def main() -> None:
    async with open_store(Path(sys.argv[1])) as store:
        for start in range(1, 1_000_000, 16):
            tickets = [(number, store.submit([commit(number)], NOW)) for number in range(start, start + 16)]
            for number, ticket in tickets:
                await ticket.done()
                print(number, flush=True)


trio.run(main)
