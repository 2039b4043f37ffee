"""`init`, `host …` and `config …` as a person meets them: real processes and homes, what is printed, the exit code."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleettrio.config import resolve_paths
from fleettrio.keyfiles import read_operator_token
from fleettrio.panes.scope import process_of
from fleettrio.testing.hosts import clean_environment
from fleettrio.testing.waiting import wait_until


class Host:
    """One home, and the command line in it."""

    def __init__(self, home: Path, name: str) -> None:
        self.home = home / name
        self.env = {**clean_environment(), "FLEETTRIO_HOME": str(self.home), "COLUMNS": "80"}

    def run(self, *words: str, code: int = 0, **env: str) -> str:
        """What the command printed; the hint of a failed one is in it."""
        done = subprocess.run(
            [sys.executable, "-m", "fleettrio", *words],
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def answer(self, *words: str, answer: str) -> tuple[int, str]:
        """Run it on a terminal and type `answer`."""
        theirs, ours = pty.openpty()
        child = subprocess.Popen(
            [sys.executable, "-m", "fleettrio", *words], env=self.env, stdin=ours, stdout=ours, stderr=ours
        )
        os.close(ours)
        os.write(theirs, answer.encode() + b"\n")
        shown = b""
        while True:
            try:
                piece = os.read(theirs, 4096)
            except OSError:  # Linux says so when the other end is closed
                break
            if not piece:
                break
            shown += piece
        os.close(theirs)
        return child.wait(timeout=180), shown.decode()


def line_of(shown: str) -> str:
    (line,) = (line for line in shown.splitlines() if line.startswith("ft-host-1:"))
    return line


@pytest.fixture
def alpha(home: Path) -> Host:
    host = Host(home, "alpha")
    host.run("init", "--host", "alpha", "--new-fleet", "prod")
    return host


@pytest.fixture
def beta(home: Path) -> Host:
    return Host(home, "beta")


def export(host: Host, file: Path) -> Path:
    with file.open("wb") as out:
        subprocess.run(
            [sys.executable, "-m", "fleettrio", "host", "export"], env=host.env, stdout=out, check=True, timeout=180
        )
    return file


def test_two_hosts_come_to_trust_each_other(alpha: Host, beta: Host, home: Path) -> None:
    line = line_of(beta.run("init", "--host", "beta"))
    assert line_of(beta.run("init")) == line
    assert "revision 2" in alpha.run("host", "add", line, "--grants", "send,reply,spawn:reviewer", "--yes")
    file = export(alpha, home / "fleet.cbor")
    assert "alpha beta" in beta.run("host", "import", str(file), "--yes")
    table = json.loads(beta.run("host", "list", "--json"))
    assert [(row["host"], row["grants"], row["is_self"]) for row in table["hosts"]] == [
        ("alpha", ["ask", "broadcast", "reply", "report", "send"], False),
        ("beta", ["reply", "send", "spawn:reviewer"], True),
    ]
    assert (table["rev"], table["is_owner"], table["problem"]) == (2, False, "")
    alpha.run("host", "revoke", "beta", "--yes")
    assert "REVOKED" in alpha.run("host", "list")


def test_without_a_person_and_without_yes_nothing_is_trusted(alpha: Host, beta: Host) -> None:
    line = line_of(beta.run("init", "--host", "beta"))
    assert "--yes" in alpha.run("host", "add", line, code=2)
    assert "beta" not in alpha.run("host", "list")


@pytest.mark.parametrize(("answer", "joined"), [("y", True), ("n", False)])
def test_a_person_compares_the_words(alpha: Host, beta: Host, answer: str, joined: bool) -> None:
    shown = beta.run("init", "--host", "beta")
    code, asked = alpha.answer("host", "add", line_of(shown), answer=answer)
    words = shown.splitlines()[1].strip()
    assert len(words.split()) == 6
    assert words in asked
    assert (code == 0) is joined
    assert ("beta" in alpha.run("host", "list")) is joined


def test_an_agent_cannot_change_the_fleet_and_the_operators_token_can(alpha: Host, beta: Host) -> None:
    line = line_of(beta.run("init", "--host", "beta"))
    assert "agent" in alpha.run("host", "add", line, "--yes", code=3, FLEETTRIO_TOKEN="x" * 43)
    token = read_operator_token(resolve_paths(alpha.env))
    assert token is not None
    alpha.run("host", "add", line, "--yes", FLEETTRIO_TOKEN=token)


@pytest.mark.parametrize(
    "words",
    [
        ("init",),
        ("host", "add", "ft-host-1:x", "--yes"),
        ("host", "import", "/dev/null", "--yes"),
        ("host", "revoke", "alpha", "--yes"),
    ],
)
def test_inside_an_agents_harness_no_command_changes_the_fleet(alpha: Host, words: tuple[str, ...]) -> None:
    before = alpha.run("host", "list")
    shown = alpha.run(*words, code=3, CLAUDECODE="1")
    assert "not an agent: CLAUDECODE is set here" in " ".join(shown.split())
    assert alpha.run("host", "list") == before


def test_the_running_daemon_says_who_may_change_the_fleet(alpha: Host, beta: Host) -> None:
    """An agent that hides its token and its harness is still known by its process."""
    line = line_of(beta.run("init", "--host", "beta"))
    daemon = re.search(r"process (\d+)", alpha.run("up"))
    assert daemon is not None
    running = process_of(int(daemon[1]))
    assert running is not None
    try:
        operator = read_operator_token(resolve_paths(alpha.env))
        assert operator is not None
        worker = alpha.run("attach", "--name", "lead", "--pid", str(os.getpid()), FLEETTRIO_TOKEN=operator)
        assert "FLEETTRIO_TOKEN=" in worker
        shown = alpha.run("host", "add", line, "--yes", code=3, FLEETTRIO_TOKEN=operator)
        assert "the daemon says that lead is calling" in " ".join(shown.split())
        assert "revision 1" in alpha.run("host", "list")
    finally:
        os.kill(running.pid, signal.SIGTERM)  # an agent, as we are now, may not say `down`
        # Its socket goes before its store is closed, and its folder is taken away next.
        wait_until("the daemon has ended", lambda: not running.is_alive)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("host", "add", "nonsense", "--yes"), 3, "host line"),
        (("host", "import", "/dev/null", "--yes"), 3, "fleet file"),
        (("host", "revoke", "nobody", "--yes"), 3, "alpha"),
        (("host", "revoke", "nobody"), 3, "there is no host 'nobody'"),
        (("host", "revoke", "alpha", "--yes"), 3, "owner"),
        (("init", "--new-fleet", "other"), 3, "already in a fleet"),
        (("init", "--new-fleet", "Not A Name"), 2, "fleet name"),
        (("init", "--host", "ALL"), 2, "host id"),
        (("init", "--host", "gamma"), 3, "keeps its id"),
    ],
)
def test_a_mistake_is_said_plainly(alpha: Host, words: tuple[str, ...], code: int, said: str) -> None:
    assert said in alpha.run(*words, code=code)


def test_a_grant_that_does_not_exist_is_a_usage_error(alpha: Host, beta: Host) -> None:
    line = line_of(beta.run("init", "--host", "beta"))
    assert "spawn:PROFILE" in alpha.run("host", "add", line, "--grants", "sned", "--yes", code=2)


def test_before_init_the_next_step_is_init(beta: Host) -> None:
    assert "fleettrio init" in beta.run("host", "list", code=3)
    assert not beta.home.exists()


def test_a_brokers_password_goes_to_a_private_file(beta: Host) -> None:
    shown = beta.run("init", "--host", "beta", "--broker", "amqp://bob:hunter%202@127.0.0.1:5672/fleet")
    toml = (beta.home / "fleettrio.toml").read_text()
    secret = beta.home / "state" / "keys" / "broker.password"
    assert "hunter" not in shown + toml
    assert secret.read_text() == "hunter 2\n"
    assert secret.stat().st_mode & 0o077 == 0
    config = json.loads(beta.run("config", "show", "--json"))
    assert (config["broker"]["uris"], config["broker"]["user"]) == (["amqp://127.0.0.1:5672/fleet"], "bob")
    assert config["host"]["id"] == "beta"
    assert "already" in beta.run("init", "--broker", "amqp://127.0.0.1/other", code=3)


def test_what_is_configured_is_shown_without_the_secret_in_an_address(beta: Host) -> None:
    shown = beta.run("config", "show", FLEETTRIO_NOTIFY_URL="https://ntfy.example/secret-topic")
    assert "[notify]" in shown
    assert 'url = "https://ntfy.example/…"' in shown
    assert "secret-topic" not in shown


@pytest.mark.parametrize("uri", ["http://h", "amqps://", "amqps://[::1", "words"])
def test_a_broker_uri_that_is_none_changes_nothing(beta: Host, uri: str) -> None:
    assert "--broker" in beta.run("init", "--host", "beta", "--broker", uri, code=3)
    assert not (beta.home / "fleettrio.toml").exists()


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("amqp://broker.example/fleet", "allow_plaintext"),
        ("amqps://broker.example/fleet?verify=ignore", "TLS is always verified"),
    ],
)
def test_config_check_and_init_refuse_what_the_daemon_would_refuse(beta: Host, uri: str, said: str) -> None:
    assert said in " ".join(beta.run("init", "--host", "beta", "--broker", uri, code=3).split())
    assert not (beta.home / "fleettrio.toml").exists()
    shown = beta.run("config", "check", code=3, FLEETTRIO_BROKER_URIS=uri)
    assert said in " ".join(shown.split())
    beta.run("config", "check", FLEETTRIO_BROKER_URIS="amqp://127.0.0.1/fleet")


def test_config_check_names_every_problem_and_config_path_every_file(beta: Host) -> None:
    assert beta.run("config", "check").startswith("ok:")
    beta.home.mkdir()
    (beta.home / "fleettrio.toml").write_text("[brokr]\n[log]\nlevel = 'loud'\n")
    shown = beta.run("config", "check", code=3)
    assert "brokr" in shown
    assert "log.level" in shown
    paths = json.loads(beta.run("config", "path", "--json"))
    assert paths["socket"] == beta.run("config", "path", "socket").strip()


def test_what_to_do_next_fits_80_columns(alpha: Host, home: Path) -> None:
    lonely = Host(home, "lonely")
    made = lonely.run("init", "--host", "lonely")
    shown = made + lonely.run("host", "list") + alpha.run("init") + alpha.run("host", "add", "--yes", line_of(made))
    steps = re.findall(r"^next: .*(?:\n +.*)*", shown, re.MULTILINE)
    assert len(steps) == 4
    assert all(len(line) <= 80 for step in steps for line in step.splitlines()), steps
