"""What `doctor` sees of the harnesses here: set up or not, whole or not, and whether what they run is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping

from fleettrio.api.schema import Check
from fleettrio.clients.cli.setup import short
from fleettrio.clients.harnesses.programs import hook_program, mcp_command
from fleettrio.clients.setup.changes import Setup
from fleettrio.clients.setup.obstacles import obstacles
from fleettrio.clients.setup.plans import HARNESSES
from fleettrio.clients.setup.record import Records
from fleettrio.config import Paths
from fleettrio.errors import ConfigError

__all__ = ("harness_checks", "set_up_again")


def harness_checks(env: Mapping[str, str], paths: Paths) -> list[Check]:
    """A line for each harness that is installed or set up, and one for the programs that they all run."""
    checks = [check for harness in HARNESSES for check in _of_harness(harness, env, paths)]
    return [*checks, *_programs()] if checks else []


def set_up_again(env: Mapping[str, str], paths: Paths) -> list[str]:
    """Write what is missing where a person set it up before; the files that were written. Raises `ConfigError`."""
    written = []
    for harness in HARNESSES:
        one = Setup(harness, env, Records(paths))
        if one.is_recorded and (changes := one.to_do()):
            one.do(changes)
            written += [short(change.file.path) for change in changes]
    return written


def _of_harness(harness: str, env: Mapping[str, str], paths: Paths) -> Iterator[Check]:
    command = f"fleettrio setup {harness}"
    try:
        one = Setup(harness, env, Records(paths))
        is_there, missing, hindering = one.is_there(), one.missing(), obstacles(one.plan)
    except ConfigError as problem:
        yield Check(harness, ok=False, detail=problem.problems[0], fix=problem.hint or command)
        return
    if is_there and not missing and hindering:
        details = "; ".join(f"{short(obstacle.file)} {obstacle.detail}" for obstacle in hindering)
        yield Check(harness, ok=False, detail=f"set up, but {details}", fix=f"edit {short(hindering[0].file)}")
    elif is_there and not missing:
        yield Check(harness, ok=True, detail=f"set up for every session, in {short(one.plan.folder)}")
    elif is_there:
        files = ", ".join(short(path) for path in missing)
        yield Check(harness, ok=False, detail=f"set up, but something of ours is missing in {files}", fix=command)
    elif shutil.which(harness, path=env.get("PATH")):
        yield Check(harness, ok=True, detail=f"not set up: `fleettrio {harness}` tells one session, `{command}` all")


def _programs() -> Iterator[Check]:
    """What the harnesses are told to run. A hook that is not there says nothing, so nobody would notice."""
    for name, program in (("hook program", hook_program()), ("MCP program", mcp_command()[0])):
        is_good = os.access(program, os.X_OK)
        fix = "" if is_good else "install fleettrio again, then: fleettrio doctor --fix setup"
        detail = program if is_good else f"{program} is not there, or cannot be run"
        yield Check(name, ok=is_good, detail=detail, fix=fix)
