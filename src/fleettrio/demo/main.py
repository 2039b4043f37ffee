"""`fleettrio demo`: options, the order of things, and the verdict in the last line."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from fleettrio.demo.lead import Lead
from fleettrio.demo.narrate import Narrator
from fleettrio.demo.stage import Stage
from fleettrio.demo.stories import STORIES, Story
from fleettrio.errors import STOPPED, FleetTrioError
from fleettrio.testing.stopping import stopped_by_signals

__all__ = ("new_folder", "run_demo")

LONGEST_PLACE = 50
"""Bytes: what the folders of the demo and a socket's name leave of the 100 that every system takes."""


def run_demo(arguments: list[str]) -> int:
    """Run every story. 0 when all passed, 1 when fewer did, 2 for bad options, 130 when it was stopped.

    Whatever it started has ended when it returns, and its folder is gone unless `--keep` was given.
    """
    options = _parser().parse_args(arguments)
    narrator = Narrator()
    began = time.monotonic()
    folder = new_folder()
    try:
        with stopped_by_signals():
            passed = _run(folder, narrator, with_beta=not options.without_beta)
    except KeyboardInterrupt:
        narrator.plain("stopped; everything that was started has ended")
        return STOPPED
    except FleetTrioError as error:
        narrator.failed(f"the stage could not be set up: {error}" + (f"\nhint: {error.hint}" if error.hint else ""))
        passed = 0
    finally:
        if options.keep:
            narrator.plain(f"everything is kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    narrator.plain(f"\ntook {time.monotonic() - began:.0f} s")
    narrator.plain(f"demo: {passed} of {len(STORIES)} stories passed")
    return 0 if passed == len(STORIES) else 1


def new_folder() -> Path:
    """A temporary folder in the usual place, or where sockets in it have short enough paths."""
    usual = tempfile.gettempdir()
    place = usual if len(os.fsencode(usual)) <= LONGEST_PLACE else "/tmp"  # noqa: S108 - the folder in it has a random name
    return Path(tempfile.mkdtemp(prefix="ft-demo-", dir=place))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fleettrio demo", description="two hosts, a broker, a worker, and stories")
    parser.add_argument("--keep", action="store_true", help="leave the folder with homes, logs and the broker's data")
    parser.add_argument("--without-beta", action="store_true", help="with beta switched off: fewer stories pass")
    return parser


def _run(folder: Path, narrator: Narrator, *, with_beta: bool) -> int:
    """How many stories passed."""
    narrator.title(f"The stage, in {folder}")
    with Stage(folder, narrator, with_beta=with_beta) as stage:
        lead = Lead(stage)
        passed = sum(_tell(number, story, lead) for number, story in enumerate(STORIES, 1))
        narrator.title("The end: worker, daemons and broker are ended")
    return passed


def _tell(number: int, story: Story, lead: Lead) -> bool:
    narrator = lead.stage.narrator
    narrator.title(f"{number}/{len(STORIES)}  {story.__doc__}")
    began = time.monotonic()
    try:
        lead.stage.ready()
        lead.told(f"Show this: {story.__doc__}")
        story(lead)
    except FleetTrioError as error:
        narrator.failed(str(error) + (f"\nhint: {error.hint}" if error.hint else ""))
        return False
    narrator.passed(f"story {number} passed ({time.monotonic() - began:.1f} s)")
    return True


if __name__ == "__main__":
    sys.exit(run_demo(sys.argv[1:]))
