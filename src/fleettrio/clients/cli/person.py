"""Who may change the fleet: the person of this host, never an agent.

Rules: a running daemon knows its agents by process, terminal and token, so its word decides. Where none runs, only the
environment can tell: the operator's token is the person, another token or a harness's mark is an agent.
"""

from __future__ import annotations

import hmac
import os

from fleettrio.api.processes import HARNESS_MARKS
from fleettrio.clients.cli.connect import TOKEN_VARIABLE, try_connect
from fleettrio.config import Paths
from fleettrio.errors import ConfigError
from fleettrio.keyfiles import read_operator_token

__all__ = ("require_person",)


def require_person(paths: Paths) -> None:
    """Return when this host's person runs this command. Raises `ConfigError` when an agent does, or nobody says who."""
    client = try_connect()
    if client is None:
        agent = _agent_by_environment(paths)
    else:
        with client:
            told = client.welcome
        agent = "" if told.is_person else told.caller_problem or f"the daemon says that {told.caller} is calling"
    if agent:
        raise ConfigError(
            [f"only the person of this host may change the fleet, not an agent: {agent}"],
            hint=f"run it in a terminal of your own, outside any agent and without {TOKEN_VARIABLE}",
        )


def _agent_by_environment(paths: Paths) -> str:
    """What in the environment shows that an agent runs this; empty when nothing does."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    if token:
        operator = read_operator_token(paths)
        is_operator = operator is not None and hmac.compare_digest(token.encode(), operator.encode())
        return "" if is_operator else f"{TOKEN_VARIABLE} is set here, and is not the operator's"
    marks = [mark for mark in HARNESS_MARKS if os.environ.get(mark)]
    return f"{marks[0]} is set here, as an agent's harness does" if marks else ""
