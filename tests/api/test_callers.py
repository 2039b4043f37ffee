"""Who is calling: the rules on made-up process tables, and the reader on real processes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from fleettrio.api.callers import Caller, CallerRules, Process, TokenUse, hash_token, lineage
from fleettrio.api.processes import HARNESS_MARKS, _read_ps, read_process
from fleettrio.core.entity import Entity
from fleettrio.ids import Gid

HUMAN = "gid-human"
UID = 1000
TTY = "/dev/pts/7"


def entity(name: str, *, pid: int = 0, tty: str = "", token: str = "", status: str = "idle") -> Entity:
    hashed = hash_token(token) if token else b""
    return Entity(
        gid=Gid(f"gid-{name}"), name=name, salt=b"", pid=pid, tty=tty, token_hash=hashed, status=status
    )  # fmt: skip


def decide(
    table: Mapping[int, Process],
    pid: int,
    *entities: Entity,
    token: str = "",
    uid: int = UID,
    operator: str = "operator",
) -> Caller:
    rules = CallerRules(
        uid=UID, human=HUMAN, entities=lambda: entities, operator_hash=hash_token(operator), read=table.get
    )
    return rules.decide(rules.lineage(pid), uid, token)


@pytest.fixture
def patient_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleettrio.api.processes.PS_LIMIT_S", 60.0)


def processes(*chain: Process) -> dict[int, Process]:
    return {process.pid: process for process in chain}


def test_the_nearest_registered_ancestor_speaks() -> None:
    table = processes(Process(50, 40), Process(40, 30), Process(30, 20), Process(20, 1), Process(1, 0))
    found = decide(table, 50, entity("outer", pid=20), entity("inner", pid=40))
    assert (found.name, found.gid, found.is_person, found.rule) == ("inner", "gid-inner", False, "process")


def test_a_registered_agent_cannot_borrow_another_ones_token_nor_the_operators() -> None:
    table = processes(Process(50, 40, TTY), Process(40, 1))
    agents = entity("worker", pid=40), entity("lead", token="lead-token")
    assert decide(table, 50, *agents, token="lead-token").name == "worker"
    assert decide(table, 50, *agents, token="operator").name == "worker"
    assert decide(table, 50, *agents, token="rubbish").name == "worker"


def test_the_terminal_of_an_agents_pane_is_that_agent_not_the_person() -> None:
    found = decide(processes(Process(50, 1, TTY)), 50, entity("worker", tty=TTY))
    assert (found.name, found.is_person) == ("worker", False)


def test_leaving_the_terminal_does_not_shake_off_the_pane() -> None:
    """`setsid` takes the terminal away from a process, not from its ancestors."""
    table = processes(Process(51, 50, ""), Process(50, 1, TTY))
    assert decide(table, 51, entity("worker", tty=TTY)).name == "worker"


@pytest.mark.parametrize("status", ["away", "gone"])
def test_the_pid_of_a_session_that_ended_is_nobodys(status: str) -> None:
    table = processes(Process(50, 40, TTY), Process(40, 1))
    assert decide(table, 50, entity("worker", pid=40, status=status)).name == "human"


def test_the_terminal_of_an_agent_that_is_away_is_not_the_persons_while_its_pane_lives() -> None:
    """The agent ended, its pane's shell goes on; whoever types there, or was left running there, is told what to do."""
    table = processes(Process(50, 40, TTY, session=40), Process(40, 1, TTY, session=40))
    found = decide(table, 50, entity("worker", pid=40, tty=TTY, status="away"), token="operator")
    assert (found.gid, found.is_person) == ("", False)
    assert found.problem == "this is the terminal of worker, which is away"
    assert found.hint == "fleettrio attach --name worker --here"


@pytest.mark.parametrize("status", ["idle", "away"])
def test_a_closed_panes_terminal_that_the_next_pane_got_is_not_the_old_agents(status: str) -> None:
    table = processes(Process(50, 90, TTY, session=90), Process(90, 1, TTY, session=90))
    assert decide(table, 50, entity("worker", pid=40, tty=TTY, status=status)).name == "human"
    newcomer = entity("newcomer", pid=90, tty=TTY)
    assert decide(table, 50, newcomer, entity("worker", pid=40, tty=TTY, status=status)).name == "newcomer"


def test_the_use_of_a_token_is_remembered_and_nobody_elses() -> None:
    seconds = iter([100.0, 160.0, 160.0])
    uses = TokenUse(lambda: next(seconds))
    agents = (entity("a", token="one"), entity("b", token="two"))
    CallerRules(uid=UID, human=HUMAN, entities=lambda: agents, read=lambda _: None, uses=uses).decide((), UID, "one")
    assert uses.idle_s("gid-a") == 60.0
    assert uses.idle_s("gid-b") == float("inf")


def test_a_token_is_the_entity_it_was_given_to() -> None:
    found = decide(processes(Process(50, 1)), 50, entity("a", token="one"), entity("ci", token="two"), token="two")
    assert (found.name, found.rule, found.is_person) == ("ci", "token", False)


def test_a_token_comes_before_the_harness_mark_and_the_terminal() -> None:
    table = processes(Process(50, 1, TTY, ("CLAUDECODE",)))
    assert decide(table, 50, entity("ci", token="two"), token="two").name == "ci"


def test_the_operators_token_is_the_person() -> None:
    found = decide(processes(Process(50, 1)), 50, token="operator")
    assert (found.gid, found.name, found.is_person) == (HUMAN, "human", True)


def test_without_an_operators_token_the_empty_one_opens_nothing() -> None:
    rules = CallerRules(uid=UID, human=HUMAN, entities=lambda: (entity("a"),), read=lambda pid: Process(pid, 0))
    assert rules.decide(rules.lineage(50), UID, "").problem
    assert rules.decide(rules.lineage(50), UID, "x").problem


def test_an_unknown_token_is_refused_even_at_a_terminal() -> None:
    found = decide(processes(Process(50, 1, TTY)), 50, token="of an agent that was forgotten")
    assert not found.name
    assert "not known" in found.problem
    assert "unset FLEETTRIO_TOKEN" in found.hint


@pytest.mark.parametrize("mark", HARNESS_MARKS)
def test_an_agent_that_is_not_attached_is_refused_also_at_a_terminal(mark: str) -> None:
    table = processes(Process(50, 40, TTY), Process(40, 1, TTY, (mark,)))
    found = decide(table, 50)
    assert (found.gid, found.is_person) == ("", False)
    assert mark in found.problem
    assert "fleettrio attach" in found.hint


def test_a_terminal_of_the_same_user_is_the_person() -> None:
    found = decide(processes(Process(50, 40, TTY), Process(40, 1)), 50)
    assert (found.gid, found.name, found.is_person, found.rule) == (HUMAN, "human", True, "terminal")


def test_the_terminal_must_be_the_callers_own() -> None:
    assert decide(processes(Process(50, 40), Process(40, 1, TTY)), 50).problem


def test_cron_and_ci_need_a_token() -> None:
    found = decide(processes(Process(50, 1), Process(1, 0)), 50)
    assert found.problem
    assert "at a terminal, `fleettrio token create" in found.hint
    assert found.rule == "nobody"


def test_another_user_is_refused_whatever_it_shows() -> None:
    table = processes(Process(50, 40, TTY), Process(40, 1))
    found = decide(table, 50, entity("worker", pid=40), token="operator", uid=UID + 1)
    assert not found.gid
    assert "user 1001" in found.problem


def test_a_process_that_is_gone_has_no_ancestors_and_needs_a_token() -> None:
    assert decide({}, 50, entity("worker", pid=50)).problem
    assert decide({}, 50, entity("ci", token="two"), token="two").name == "ci"


def test_a_ring_of_parents_ends() -> None:
    assert len(lineage(5, processes(Process(5, 6), Process(6, 5)).get)) == 2


def test_the_mark_of_a_real_process_is_seen_and_its_parent_is_us() -> None:
    with real_process({"CLAUDECODE": "1"}) as child:
        found = read_process(child.pid)
        assert found is not None
        assert (found.ppid, found.marks) == (os.getpid(), ("CLAUDECODE",))
        rules = CallerRules(uid=UID, human=HUMAN, entities=lambda: (entity("me", pid=os.getpid()),), read=read_process)
        assert rules.decide(rules.lineage(child.pid), UID, "").name == "me"
        unregistered = CallerRules(uid=UID, human=HUMAN, entities=lambda: (), read=read_process)
        assert "CLAUDECODE" in unregistered.decide(unregistered.lineage(child.pid), UID, "").problem


def test_a_real_process_without_mark_or_terminal() -> None:
    with real_process({}) as child:
        found = read_process(child.pid)
        assert found is not None
        assert (found.marks, found.tty) == ((), "")


def test_ps_says_the_same_as_proc(patient_ps: None) -> None:
    with real_process({"CODEX_THREAD_ID": "t"}) as child:
        assert _read_ps(child.pid) == read_process(child.pid)
    assert _read_ps(child.pid) is None


def test_the_terminal_of_a_real_process_is_named_as_the_system_names_it() -> None:
    ours, theirs = pty.openpty()
    name = os.ttyname(theirs)
    become_owner = f"import fcntl, termios, sys; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {_WAIT}"
    with subprocess.Popen(
        [sys.executable, "-c", become_owner], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as child:
        try:
            assert os.read(ours, 100).startswith(b"ready")
            found = read_process(child.pid)
            assert found is not None
            assert found.tty == name
        finally:
            child.kill()
            os.close(ours)
            os.close(theirs)


def test_a_process_that_ended_is_none() -> None:
    with real_process({}) as child:
        pid = child.pid
    assert read_process(pid) is None


_WAIT = "import signal; print('ready', flush=True); signal.pause()"


class real_process:  # noqa: N801  reads as a statement
    """A process of our own in a session of its own, with just this environment."""

    def __init__(self, env: dict[str, str], command: tuple[str, ...] = (sys.executable, "-S", "-c")) -> None:
        self._env = env
        self._command = command

    def __enter__(self) -> subprocess.Popen[bytes]:
        self._child = subprocess.Popen(
            [*self._command, _WAIT],
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == b"ready\n"
        return self._child

    def __exit__(self, *problem: object) -> None:
        self._child.kill()
        self._child.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()


# --- one background server for all sessions of a harness -------------------------------------------

FIRST = "token-of-the-session-that-started-the-server"
SHARED = Process(60, 40, is_server=True, token=hash_token(FIRST), marks=("CODEX_THREAD_ID",))


def test_behind_a_server_that_sessions_share_neither_its_ancestors_nor_its_token_say_who_calls() -> None:
    table = processes(Process(62, 60), SHARED, Process(40, 1, TTY))
    first = entity("first", pid=40, tty=TTY, token=FIRST)
    assert decide(table, 60, first).name == ""
    assert decide(table, 62, first, token=FIRST).gid == ""
    assert decide(table, 62, first, entity("ci", token="own"), token="own").name == "ci"


def test_behind_a_shared_server_the_session_that_it_works_for_speaks_whatever_its_child_says() -> None:
    table = processes(Process(63, 62, thread="s-one"), Process(62, 60, thread="s-two"), SHARED, Process(40, 1, TTY))
    first = msgspec.structs.replace(entity("first", pid=40, token=FIRST), session="s-one")
    second = msgspec.structs.replace(entity("second"), session="s-two")
    found = decide(table, 63, first, second, token=FIRST)
    assert (found.name, found.rule) == ("second", "session")


def test_the_terminal_of_a_harness_that_a_person_started_at_a_prompt_is_the_persons_again_when_it_ended() -> None:
    table = processes(Process(50, 40, TTY, session=40), Process(40, 1, TTY, session=40))
    there = msgspec.structs.replace(entity("worker", pid=40, tty=TTY), program=45)
    assert decide(table, 50, there).name == "worker"
    assert decide(table, 50, msgspec.structs.replace(there, status="away")).is_person


def test_the_children_of_a_harness_without_a_terminal_speak_for_it() -> None:
    """Hooks and MCP servers have none: the harness itself is the ancestor, its pane's shell is not theirs to name."""
    table = processes(Process(52, 45), Process(45, 40, TTY, session=40), Process(40, 1, TTY, session=40))
    worker = msgspec.structs.replace(entity("worker", pid=40, tty=TTY), program=45)
    assert decide(table, 52, worker).rule == "process"


def test_codexs_server_is_told_by_its_command_line_and_its_token_is_known(tmp_path: Path, patient_ps: None) -> None:
    program = tmp_path / "codex"
    program.write_text(f"#!{sys.executable} -S\nimport sys\nexec(sys.argv[-1])\n")
    program.chmod(0o755)
    with real_process({"FLEETTRIO_TOKEN": FIRST}, (str(program), "app-server", "--listen")) as child:
        found = read_process(child.pid)
        assert found is not None
        assert (found.is_server, found.token) == (True, hash_token(FIRST))
        assert _read_ps(child.pid) == found
