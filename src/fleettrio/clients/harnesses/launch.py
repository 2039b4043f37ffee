"""How one process of a harness is started so that it has our hooks and tools: nothing is written anywhere.

What a person passes on is passed on as it is, and last. Subcommands that are no session (`claude mcp list`, `codex
login`) are run as they are, and no agent comes of them.
"""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fleettrio.clients.harnesses import claude, codex, opencode
from fleettrio.clients.harnesses.programs import MCP_NAME
from fleettrio.errors import ConfigError

__all__ = ("HARNESSES", "INSTALL", "Launch", "plan")

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_HELP_S = 15.0


class Launch(msgspec.Struct, frozen=True):
    """What is run: arguments behind the program's name, and what is added to the environment."""

    arguments: tuple[str, ...]
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    session: str = ""
    """What the harness will call its session, where that can be known before."""
    is_agent: bool = True
    """False for a subcommand that is no session."""


def plan(harness: str, program: str, arguments: Sequence[str], env: Mapping[str, str]) -> Launch:
    """How `program`, which is `harness`, is started with a person's `arguments`. May run it once to ask for its help.

    Raises `ConfigError` for arguments that ours cannot go together with.
    """
    return HARNESSES[harness](program, tuple(arguments), env)


def _claude(_program: str, arguments: tuple[str, ...], _env: Mapping[str, str]) -> Launch:
    if _is_other(arguments, _CLAUDE_OTHER):
        return Launch(arguments, is_agent=False)
    if any(word == "--settings" or word.startswith("--settings=") for word in arguments):
        raise ConfigError(
            ["--settings is how claude is told of fleettrio's hooks, and it takes only one"],
            hint="put your settings into a file that claude reads by itself, or run fleettrio setup claude and claude",
        )
    session = _value(arguments, ("--session-id", "--resume", "-r"))
    is_given = any(word.partition("=")[0] in _CLAUDE_SESSION for word in arguments)
    own = () if is_given else ("--session-id", session := str(uuid.uuid4()))
    known = session if _UUID.fullmatch(session) and "--fork-session" not in arguments else ""
    servers = {"mcpServers": {MCP_NAME: claude.mcp_entry()}}
    # --mcp-config takes all words up to the next option: never a person's prompt.
    told = ("--mcp-config", json.dumps(servers), "--settings", json.dumps(claude.settings()))
    return Launch((*told, *own, *arguments), session=known)


_CLAUDE_SESSION = frozenset({"--session-id", "--resume", "-r", "--continue", "-c", "--from-pr", "--teleport"})
_CLAUDE_OTHER = frozenset(
    {"agents", "auth", "auto-mode", "config", "doctor", "install", "mcp", "migrate-installer", "plugin", "plugins"}
    | {"project", "remote-control", "setup-token", "update", "upgrade"}
)


def _codex(program: str, arguments: tuple[str, ...], _env: Mapping[str, str]) -> Launch:
    if _is_other(arguments, _CODEX_OTHER):
        return Launch(arguments, is_agent=False)
    first = arguments[0] if arguments else ""
    # Else hooks and tools are started by a server that all sessions share, and know of whoever came first.
    is_headless = first in ("exec", "e", "review")
    alone = () if is_headless or not _knows(program, "--no-daemon") else ("--no-daemon",)
    overrides = [word for value in codex.overrides(required=is_headless) for word in ("-c", value)]
    is_resumed = first == "resume" and len(arguments) > 1 and _UUID.fullmatch(arguments[1])
    return Launch((*alone, *overrides, *arguments), session=arguments[1] if is_resumed else "")


_CODEX_OTHER = frozenset(
    {"agents", "app-server", "apply", "a", "archive", "cloud", "completion", "debug", "delete", "doctor", "exec-server"}
    | {"features", "help", "login", "logout", "mcp", "mcp-server", "migrate-nfs-db", "migrate-rollouts", "plugin"}
    | {"queue", "remote-control", "sandbox", "unarchive", "update"}
)


def _knows(program: str, option: str) -> bool:
    """Whether a program's help names an option: an older one without it would not start."""
    try:
        done = subprocess.run([program, "--help"], capture_output=True, timeout=_HELP_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return option.encode() in done.stdout


def _opencode(_program: str, arguments: tuple[str, ...], env: Mapping[str, str]) -> Launch:
    if _is_other(arguments, _OPENCODE_OTHER):
        return Launch(arguments, is_agent=False)
    given = env.get(_OPENCODE_CONFIG, "")
    try:
        theirs = json.loads(given) if given.strip() else {}
        if not isinstance(theirs, dict):
            raise ValueError("no object")
    except ValueError as problem:
        raise ConfigError(
            [f"{_OPENCODE_CONFIG} is set, and is not JSON that ours can be added to: {problem}"],
            hint=f"unset {_OPENCODE_CONFIG}, or mend it",
        ) from None
    ours = opencode.config()
    both = {
        **theirs,
        "plugin": [*theirs.get("plugin", []), *ours["plugin"]],
        "mcp": {**theirs.get("mcp", {}), **ours["mcp"]},
    }
    session = _value(arguments, ("--session", "-s"))
    return Launch(arguments, {_OPENCODE_CONFIG: json.dumps(both), **opencode.environment()}, session=session)


_OPENCODE_CONFIG = "OPENCODE_CONFIG_CONTENT"
_OPENCODE_OTHER = frozenset(
    {"acp", "agent", "auth", "completion", "db", "debug", "export", "github", "import", "mcp", "models", "plugin"}
    | {"pr", "providers", "serve", "session", "stats", "uninstall", "upgrade", "web"}
)


def _is_other(arguments: tuple[str, ...], subcommands: frozenset[str]) -> bool:
    """Whether no session comes of these arguments."""
    return arguments[:1] != () and (arguments[0] in subcommands or arguments[0] in ("-h", "--help", "-v", "--version"))


def _value(arguments: tuple[str, ...], options: tuple[str, ...]) -> str:
    """What the first of these options is given, `--option value` or `--option=value`; empty without one."""
    for index, word in enumerate(arguments):
        option, sign, value = word.partition("=")
        if option in options:
            follows = arguments[index + 1] if index + 1 < len(arguments) else ""
            return value if sign else "" if follows.startswith("-") else follows
    return ""


HARNESSES: Mapping[str, Callable[[str, tuple[str, ...], Mapping[str, str]], Launch]] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
}
INSTALL = {
    "claude": "npm install -g @anthropic-ai/claude-code",
    "codex": "npm install -g @openai/codex",
    "opencode": "npm install -g opencode-ai",
}
"""How to get one that is missing."""
