"""Child process: writes until its files may not grow any more, then may again. Prints what it met."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import trio

from fleettrio.errors import StoreError
from fleettrio.store import open_store
from tests.store.store_rows import NOW, commit


async def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with open_store(Path(sys.argv[1])) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
        written = 0
        try:
            while True:
                await store.submit([commit(written + 1)], NOW).done()
                written += 1
        except StoreError as error:
            reason = error.reason
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await store.probe()
        await store.submit([commit(written + 1)], NOW).done()
    print(json.dumps({"reason": reason, "written": written}))


trio.run(main)
