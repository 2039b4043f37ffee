"""Who asks, and who may attach what. An identity is given to a person's choice, or to an agent for itself alone.

Rules:
1. A person attaches anything: panes, commands, processes, known names.
2. An agent that is not attached yet (a harness started it, or it calls from the terminal of an agent that is away) gets
   a name for itself: its own pane, its own process, or neither.
3. Who shows the token of an agent may attach that agent again; nobody else without a terminal gets an identity here.
4. From the terminal of an agent that is away only that pane can be attached: with it gone from the roster, whoever sits
   there would be taken for the person.
5. A process must be a living one of this user, and nothing that the daemon itself descends from.
"""

from __future__ import annotations

import os
from pathlib import Path

from fleettrio.api import schema
from fleettrio.api.callers import Caller, Process, is_terminal, lineage
from fleettrio.api.processes import read_process
from fleettrio.api.rpc import CallError, Connection
from fleettrio.errors import FAILED, USAGE
from fleettrio.ids import Gid

__all__ = ("check_caller", "check_pane", "check_process", "identity_of")

_AT_A_TERMINAL = "run it at a terminal"


def identity_of(caller: Caller) -> Gid:
    """Whose words the caller's are. Raises `CallError` when nobody can say."""
    if caller.problem or not caller.gid:
        raise CallError(FAILED, "no-identity", caller.problem or "nobody says who is calling", caller.hint)
    return Gid(caller.gid)


def check_caller(params: schema.Attach, caller: Caller, connection: Connection) -> None:
    """Whether the caller may attach anything like it. Raises `CallError`."""
    if connection.uid != os.getuid():
        raise CallError(FAILED, "other-user", caller.problem, caller.hint)
    if caller.is_person:
        return
    if params.take:
        raise CallError(FAILED, "not-a-person", "--take is a person's choice", _AT_A_TERMINAL)
    if caller.gid and not (caller.rule == "token" and caller.name == params.name):
        text = f"you are {caller.name} already: an attached agent cannot attach again"
        raise CallError(FAILED, "attached-already", text, "use another shell, or a person's terminal")
    if not caller.gid and caller.rule not in ("mark", "away"):
        raise CallError(FAILED, "no-identity", caller.problem or "nobody says who is calling", caller.hint)
    if params.command:
        text = "only a person makes a command an agent: the daemon runs it for every message"
        raise CallError(FAILED, "not-a-person", text, _AT_A_TERMINAL)
    if params.transport and params.transport != "herdr":
        text = "only a person attaches by a transport: what its target is, it alone can say"
        raise CallError(FAILED, "not-a-person", text, _AT_A_TERMINAL)
    if caller.rule == "away" and not params.pane and params.transport != "herdr":
        raise CallError(FAILED, "no-identity", caller.problem, caller.hint)


def check_pane(pane: str, tty: str, pid: int, caller: Caller, connection: Connection) -> None:
    """Whether the pane with that terminal and first process is the caller's to attach. Raises `CallError`."""
    if caller.is_person or any(is_terminal(tty, pid, process) for process in connection.ancestors):
        return
    raise CallError(FAILED, "not-yours", f"the pane {pane} is not the one you run in", _AT_A_TERMINAL)


def check_process(pid: int, caller: Caller, connection: Connection) -> None:
    """Whether the process can be the caller's agent. Reads processes, so may block. Raises `CallError`."""
    if read_process(pid) is None or _user_of(pid) != os.getuid():
        raise CallError(USAGE, "bad-pid", f"no process {pid} of this user is running", "ps shows what is running")
    if pid == 1 or any(process.pid == pid for process in lineage(os.getpid(), read_process)):
        text = f"the daemon descends from process {pid}: too much would speak for the agent"
        raise CallError(USAGE, "bad-pid", text, "give the agent's own process")
    if not caller.is_person and pid not in _own(connection.ancestors):
        raise CallError(FAILED, "not-yours", f"process {pid} is not your own", _AT_A_TERMINAL)


def _own(ancestors: tuple[Process, ...]) -> set[int]:
    """Up to the harness: the process that set the mark, which it does not carry itself."""
    marked = [number for number, process in enumerate(ancestors) if process.marks]
    return {process.pid for process in ancestors[: marked[-1] + 2]} if marked else set()


def _user_of(pid: int) -> int:
    """The user of a process; where the system does not tell (no /proc), ours if we may send it a signal, else -1."""
    try:
        if Path("/proc/self").exists():
            return Path(f"/proc/{pid}").stat().st_uid
        os.kill(pid, 0)
    except OSError:
        return -1
    return os.getuid()
