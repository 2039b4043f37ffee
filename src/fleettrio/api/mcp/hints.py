"""What the daemon advises, in words of tools: a model that calls `fleet_send` may have no shell to give a command in.

The daemon words its advice once, as commands, since most of those who read it are at a terminal. Here each command that
has a tool becomes that tool. What has none stays as it is: those commands are a person's, or need a shell anyway.
"""

from __future__ import annotations

import re

__all__ = ("in_tools",)

_ID, _TEXT = r"([^\s`]+)", "'[^']*'"
_COMMANDS = {
    f"reply {_ID} {_TEXT}": r"fleet_reply with id \1",
    f"answer {_ID} {_TEXT}": r"fleet_answer with id \1",
    f"send --coord {_ID} {_TEXT}": r"fleet_send with coord \1",
    f"send {_ID} --supersedes {_ID} {_TEXT}": r"fleet_send to \1 with supersedes \2",
    f"send NAME {_TEXT}": "fleet_send with to",
    f"send --retry {_ID}`? with the same body(?! sends it again to those)": "fleet_send",
    "inbox --all, fleettrio inbox --sent": "ids are those that fleet_poll and fleet_send gave",
    "inbox --all": "ids are those that fleet_poll gave",
    "inbox --sent": "ids are those that fleet_send gave",
    "inbox --take": "fleet_poll",
    r"(?:show|trace) ([0-9a-f]+)\b": r"fleet_trace with id \1",
    r"(?:show|trace)\b": "fleet_trace",
    f"stop {_ID}": r"fleet_stop with target \1",
    r"list\b": "fleet_list",
}
"""Behind `fleettrio`."""
_OPTIONS = {
    "--path and --on-stale drop need": "paths need",
    "--path names": "paths names",
    "--expires 10m": "expires_s 600",
    "--remind 30m": "remind_s 1800",
    "--timeout 2m": "timeout_s 120",
    "a shorter --expires": "a shorter expires_s",
    "a shorter --timeout": "a shorter timeout_s",
    "leave --name out": "leave name out",
    "write it as the last argument": "say it in text",
    "leave the option away": "leave paths away",
}
_COMMAND = tuple((re.compile(f"`?fleettrio {find}`?"), said) for find, said in _COMMANDS.items())


def in_tools(advice: str) -> str:
    """The same advice for who has tools."""
    for find, said in _COMMAND:
        advice = find.sub(said, advice)
    for option, argument in _OPTIONS.items():
        advice = advice.replace(option, argument)
    return advice
