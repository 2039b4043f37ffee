"""`attach`, `detach`, `token`, and what the commands have in common."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import click
import pytest
from rich.cells import cell_len

from fleettrio.api import schema
from fleettrio.clients.cli.connect import reload_daemon
from fleettrio.clients.cli.main import COMMANDS
from fleettrio.clients.cli.main import cli as root
from fleettrio.errors import ConfigError
from tests.cli.canned import agent, fleet, sent
from tests.cli.fake_daemon import Cli, FakeDaemon

ATTACHED = schema.Attached("gid", "worker", "alpha", "tok'en", True)


def test_attach_prints_a_line_for_the_shell(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["attach"] = ATTACHED
    ran = cli("attach", "--name", "worker")
    assert ran.code == 0
    assert shlex.split(ran.text) == ["export", "FLEETTRIO_TOKEN=tok'en"]
    assert "worker@alpha" in ran.err
    assert cli("attach", "--json").decoded(schema.Attached) == ATTACHED


def test_attach_passes_all_it_was_told(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["attach"] = ATTACHED
    words = "--name w --role lead --takes push --pane mine:%3 --harness script --group a --group b --pid 77 --take"
    assert cli("attach", *words.split()).code == 0
    assert daemon.params_of("attach") == [
        schema.Attach(
            name="w",
            role="lead",
            takes="push",
            pane="mine:%3",
            harness="script",
            groups=["a", "b"],
            pid=77,
            take=True,
            cwd=os.getcwd(),
        )
    ]


@pytest.mark.parametrize(
    ("words", "env", "target"),
    [
        (["--herdr", "w2:p1"], {"HERDR_SOCKET_PATH": "/run/h.sock"}, "/run/h.sock#w2:p1"),
        (["--herdr"], {"HERDR_SOCKET_PATH": "/run/h.sock", "HERDR_PANE_ID": "w7:p3"}, "/run/h.sock#w7:p3"),
        (["--herdr", "/other.sock#term-1"], {"HERDR_PANE_ID": "w7:p3"}, "/other.sock#term-1"),
    ],
)
def test_an_agent_in_herdr_is_named_by_its_socket_and_who_is_meant(
    cli: Cli, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, words: list[str], env: dict[str, str], target: str
) -> None:
    daemon.answers["attach"] = ATTACHED
    for key, value in env.items():
        monkeypatch.setenv(key, value)
    assert cli("attach", "--name", "w", *words).code == 0
    params = daemon.params_of("attach")[0]
    assert (params.transport, params.target) == ("herdr", target)


def test_herdr_without_a_target_outside_of_herdr_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERDR_PANE_ID", raising=False)
    ran = cli("attach", "--name", "w", "--herdr")
    assert ran.code == 2
    assert "not a pane of herdr" in ran.err
    assert cli("attach", "--herdr", "x", "--pane", "%3").code == 2
    assert cli("attach", "--herdr", "x", "--transport", "http", "--target", "y").code == 2


def test_what_was_found_in_the_pane_is_said_beside_the_line_for_the_shell(cli: Cli, daemon: FakeDaemon) -> None:
    found = "claude in pane %3, idle: a draft is in its composer"
    daemon.answers["attach"] = schema.Attached("gid", "worker", "alpha", "token", True, found)
    ran = cli("attach", "--pane", "%3")
    assert ran.text == "export FLEETTRIO_TOKEN=token\n"
    assert f"found: {found}" in " ".join(ran.err.split())


def test_a_command_is_split_like_a_shell_does(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["attach"] = ATTACHED
    assert cli("attach", "--command", "./work.sh 'two words'").code == 0
    assert daemon.params_of("attach")[0].command == ["./work.sh", "two words"]


USUAL = f"/tmp/tmux-{os.getuid()}"


@pytest.mark.parametrize(
    ("tmux", "pane"),
    [
        (f"{USUAL}/default,12,0", "%5"),
        (f"{USUAL}/my,odd,12,0", f"{USUAL}/my,odd:%5"),
        ("/elsewhere/default,1,0", "/elsewhere/default:%5"),
        ("/not a/path,1,0", ""),
    ],
)
def test_here_is_the_pane_of_this_terminal(
    cli: Cli, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, tmux: str, pane: str
) -> None:
    daemon.answers["attach"] = ATTACHED
    monkeypatch.setenv("TMUX", tmux)
    monkeypatch.setenv("TMUX_PANE", "%5")
    monkeypatch.delenv("TMUX_TMPDIR", raising=False)
    ran = cli("attach", "--here")
    if not pane:
        assert ran.code == 2
        assert "is not a pane" in ran.err
    else:
        assert daemon.params_of("attach")[0].pane == pane


@pytest.mark.parametrize(
    "words",
    [
        ("--pane", "3"),
        ("--pane", "%3; rm"),
        ("--pane", "%3", "--command", "x"),
        ("--command", "'open"),
        ("--takes", "both"),
        ("--command", ""),
        ("--command", "''"),
        ("--name", ""),
        ("--name", " "),
    ],
)
def test_wrong_use_is_exit_2_and_reaches_no_daemon(cli: Cli, daemon: FakeDaemon, words: tuple[str, ...]) -> None:
    assert cli("attach", *words).code == 2
    assert not daemon.calls


@pytest.mark.parametrize(
    ("given", "passed"),
    [("%4", "/tmp/x/side:%4"), ("default:%4", "default:%4"), ("other:%4", "other:%4"), ("/t/x:%4", "/t/x:%4")],
)
def test_a_pane_without_a_socket_is_one_of_the_tmux_server_around(
    cli: Cli, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, given: str, passed: str
) -> None:
    daemon.answers["attach"] = ATTACHED
    monkeypatch.setenv("TMUX", "/tmp/x/side,12,0")
    assert cli("attach", "--pane", given).code == 0
    assert daemon.params_of("attach")[0].pane == passed


def test_here_outside_tmux_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    ran = cli("attach", "--here")
    assert ran.code == 2
    assert "not a tmux pane" in ran.err


def test_detach_and_forget(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["detach"] = schema.Done("worker is away")
    assert cli("detach", "worker").text == "worker is away\n"
    assert cli("detach", "worker", "--forget").code == 0
    assert daemon.params_of("detach") == [schema.Detach("worker", False), schema.Detach("worker", True)]


def test_a_token_for_a_program(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["token"] = ATTACHED
    assert cli("token", "create", "--name", "ci").text.startswith("export FLEETTRIO_TOKEN=")
    assert daemon.params_of("token") == [schema.Token("ci")]


def test_a_token_is_said_to_be_one_and_not_an_attachment(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["token"] = ATTACHED
    said = cli("token", "create", "--name", "ci").err
    assert "worker@alpha has a new token" in said
    assert "attached" not in said


@pytest.mark.parametrize(
    "words",
    [
        ("spawn", "coder@"),
        ("spawn", "coder", "--name", ""),
        ("send", "a", "text", "--claim", ""),
        ("claim", "  "),
    ],
)
def test_names_that_say_nothing_are_wrong_use(cli: Cli, daemon: FakeDaemon, words: tuple[str, ...]) -> None:
    ran = cli(*words)
    assert ran.code == 2
    assert "Expected" not in ran.err
    assert not daemon.calls


def test_reload_tells_whether_a_daemon_took_it_and_what_it_cannot_take_up(
    cli: Cli, daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["reload"] = [
        schema.Reloaded("prod", 2, ["alpha"]),
        schema.Reloaded("prod", 2, ["alpha"], "fleettrio.toml was changed"),
        ConfigError(["broker.uris: bad"], hint="edit it"),
    ]
    reload_daemon()
    assert capsys.readouterr().out == "the running daemon took it\n"
    reload_daemon()
    assert capsys.readouterr().out == "fleettrio.toml was changed: `fleettrio down`, then `fleettrio up`\n"
    reload_daemon()
    told = capsys.readouterr()
    assert (told.out, "broker.uris: bad" in told.err, "hint: edit it" in told.err) == ("", True, True)
    daemon.stop()
    reload_daemon()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("group", ["host", "config", "token"])
def test_a_group_alone_shows_its_help_as_help(cli: Cli, group: str) -> None:
    ran = cli(group)
    assert ran.code == 2
    assert ran.err.startswith("Usage: ")
    assert "Commands:" in ran.err
    assert "error:" not in ran.err


def test_durations_and_when_are_explained_where_they_are_given(cli: Cli) -> None:
    text = " ".join(cli("send", "--help").text.split())
    assert "30s, 30m, 2h, 1d" in text
    assert "once it waits for input" in text
    assert "30s" in cli("inbox", "--help").text


def test_the_list_of_commands_says_whole_sentences(cli: Cli) -> None:
    text = cli("--help").text
    assert "..." not in text.partition("Commands:")[2]
    assert "Ask somebody who listens now, and stay until the answer is there" in text
    assert "..." not in cli("host", "--help").text.partition("Commands:")[2]


@pytest.mark.parametrize(("words", "near"), [(("sned",), "send"), (("host", "improt"), "import")])
def test_a_name_that_nearly_is_a_command_is_answered_with_that(cli: Cli, words: tuple[str, ...], near: str) -> None:
    ran = cli(*words)
    assert (ran.code, f"no command {words[-1]!r}; did you mean {near!r}?" in ran.err) == (2, True)


def test_the_help_names_the_token_command_and_the_options_of_the_demo(cli: Cli) -> None:
    assert "token" in cli("--help").text
    text = cli("demo", "--help").text
    assert "--keep" in text
    assert "--without-beta" in text


LONG = f"{'n' * 32}@{'h' * 32}"


def test_an_address_is_never_cut_on_a_terminal(cli: Cli, daemon: FakeDaemon) -> None:
    name, host = LONG.split("@")
    daemon.answers["list"] = schema.Fleet("alpha", "prod", [], [agent(name, host)])
    lines = cli.on_terminal("list")
    assert LONG in lines
    assert max(map(len, lines)) <= 80


def test_a_narrow_terminal_drops_nothing_and_cuts_no_address(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["list"] = fleet()
    lines = cli.on_terminal("list", columns=40)
    assert max(map(cell_len, lines)) <= 40
    words = " ".join(" ".join(lines).split())
    for fact in (
        "lead@alpha",
        "TAKES push (tmux)",
        "WAITING 3",
        "ROLE script · worker",
        "TRUST it refuses us: unknown-key",
    ):
        assert fact in words
    assert "…" not in words


def test_a_misspelt_command_names_the_near_one(cli: Cli) -> None:
    ran = cli("sned", "a")
    assert ran.code == 2
    assert "did you mean 'send'" in ran.err


@pytest.mark.parametrize("words", [("setup",), ("setup", "vim")])
def test_a_choice_that_was_not_made_is_one_error_of_80_columns_that_names_all(cli: Cli, words: tuple[str, ...]) -> None:
    ran = cli(*words)
    assert (ran.code, ran.err.count("error: "), ran.err.count("\t")) == (2, 1, 0)
    assert all(name in ran.err for name in ("claude", "codex", "opencode"))
    assert max(len(line) for line in ran.err.splitlines()) <= 80


def every_command() -> list[tuple[str, click.Command]]:
    with click.Context(root) as ctx:
        found = [(name, root.get_command(ctx, name)) for names in COMMANDS.values() for name in names]
    return [(name, command) for name, command in found if command is not None]


def test_every_command_of_the_table_exists() -> None:
    assert {name for name, _ in every_command()} == {name for names in COMMANDS.values() for name in names}


@pytest.mark.parametrize("words", [[], *([name] for name, _ in every_command())])
def test_every_help_fits_80_columns_and_has_an_example(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fleettrio", *words, "--help"], capture_output=True, timeout=180, check=True
    )
    text = done.stdout.decode()
    assert "Example" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_send_loads_neither_trio_nor_rich_nor_the_daemon(cli: Cli, daemon: FakeDaemon) -> None:
    """A command that people and hooks run all day has to start at once."""
    daemon.answers["send"] = sent()
    program = (
        "import sys; from fleettrio.clients.cli.main import run; run(['send', 'a', 'text']); "
        "print(sorted({'trio', 'rich', 'aio_pika', 'structlog', 'sqlite3', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=180, check=True)
    assert done.stdout.endswith(b"[]\n")


def test_the_shell_can_complete_commands() -> None:
    env = {**os.environ, "_FLEETTRIO_COMPLETE": "bash_complete", "COMP_WORDS": "fleettrio sen", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-m", "fleettrio"], capture_output=True, timeout=180, check=False, env=env)
    assert done.stdout == b"plain,send\n"
