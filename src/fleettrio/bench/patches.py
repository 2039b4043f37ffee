"""Hosts that run something else than what ships: to measure what a mechanism is worth, and to see a gate fail.

Python imports `sitecustomize` at its start; a folder with one, first in `PYTHONPATH`, changes every program of a host.
"""

from __future__ import annotations

import os
import pathlib
import secrets

from fleettrio.testing.hosts import clean_environment

__all__ = ("UNBATCHED", "patched")

UNBATCHED = "from fleettrio.tasks import publish\nassert publish.MAX_BATCH == 256\npublish.MAX_BATCH = 1\n"
"""Each message is a batch of its own: signed, committed and published alone."""


_GUARDED = """\
import os
try:
{body}
except BaseException as problem:
    print("patch:", repr(problem), flush=True)
    os._exit(70)
"""
"""A patch that fails must not pass for one that changes nothing: Python itself only warns of it."""


def patched(folder: pathlib.Path, code: str) -> dict[str, str]:
    """What to add to the environment of programs that are to run `code` first; `folder` keeps the file."""
    place = folder / f"patch-{secrets.token_hex(4)}"
    place.mkdir()
    body = "\n".join(f"    {line}" for line in code.splitlines())
    (place / "sitecustomize.py").write_text(_GUARDED.format(body=body), "utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(place), clean_environment()["PYTHONPATH"]])}
