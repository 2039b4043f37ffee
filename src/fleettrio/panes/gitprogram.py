"""The program git: one command in a work tree, and what it printed.

It takes no lock, runs no hook, no filter, no monitor, no signature program, goes to no network, and reads no
configuration but the repository's own. Cancelled, it is ended at once: how long it may take is said by the caller.
"""

from __future__ import annotations

import os
import subprocess

import trio

__all__ = ("printed", "run")

_OPTIONS = (
    *("--no-optional-locks", "--no-pager"),
    *("-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false"),
)
_OWN_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # versions that do not know the line above
    "LC_ALL": "C",
}


async def printed(tree: str, *command: str) -> str:
    """What a git command printed; nothing when it failed."""
    done = await run(tree, *command)
    return done.stdout.decode("utf-8", "replace") if done and done.returncode == 0 else ""


async def run(tree: str, *command: str) -> subprocess.CompletedProcess[bytes] | None:
    """One git command in `tree`, ended at once when the time is over. None: there is no git."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {**_OWN_ENV, "GIT_CEILING_DIRECTORIES": os.path.dirname(tree)}
    try:
        return await trio.run_process(
            ["git", "-C", tree, *_OPTIONS, *command],
            stdin=subprocess.DEVNULL,
            capture_stdout=True,
            stderr=subprocess.DEVNULL,
            check=False,
            env=env,
            deliver_cancel=_kill,
        )
    except OSError:
        return None


async def _kill(process: trio.Process) -> None:
    process.kill()
