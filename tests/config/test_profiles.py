"""`[[profile]]`: what is read out of it, and that every fault is told at once with its key."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fleettrio.clients.cli.config import show
from fleettrio.config import load_config
from fleettrio.errors import ConfigError
from fleettrio.profiles import Profile

EXAMPLES = Path(__file__).parents[2] / "examples" / "profiles"


def load(home: Path, text: str) -> tuple[Profile, ...]:
    home.joinpath("fleettrio.toml").write_text(text)
    return load_config({"FLEETTRIO_HOME": str(home)}).profiles


def problems(home: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(home, text)
    return list(caught.value.problems)


def profile(**values: str) -> str:
    given = {"name": '"worker"', "command": '["true"]', "roots": '["/srv"]', **values}
    return "[[profile]]\n" + "".join(f"{key} = {value}\n" for key, value in given.items())


def test_a_profile_is_read_with_its_defaults(home: Path) -> None:
    (read,) = load(home, profile(command='["claude", "--model", "x"]', sandbox='["bwrap", "--"]', harness='"claude"'))
    assert read.argv == ("bwrap", "--", "claude", "--model", "x")
    assert (read.cwd, read.roots, read.runtime, read.ready, read.max) == ("/srv", ("/srv",), "tmux", "hook", 8)
    assert (read.reply, read.role) == ("auto", "worker")


def test_folders_may_begin_at_the_home_folder_and_cwd_alone_is_the_only_root(home: Path) -> None:
    (read,) = load(home, '[[profile]]\nname = "worker"\ncommand = ["true"]\ncwd = "~/src"\n')
    assert read.cwd == str(Path.home() / "src")
    assert read.roots == (read.cwd,)


def test_config_show_prints_a_profile_without_the_values_of_its_variables(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(home, profile(env='{ API_KEY = "hunter2" }'))
    monkeypatch.setenv("FLEETTRIO_HOME", str(home))
    for arguments in ([], ["--json"]):
        shown = CliRunner().invoke(show, arguments).output
        assert "worker" in shown
        assert "API_KEY" in shown
        assert "hunter2" not in shown


def test_a_profile_may_name_a_harness_of_the_persons_own(home: Path) -> None:
    assert "no harness 'murmur'" in problems(home, profile(harness='"murmur"'))[0]
    (home / "harness").mkdir()
    (home / "harness" / "murmur.toml").write_text("about = 'murmur'")
    (read,) = load(home, profile(harness='"murmur"'))
    assert read.harness == "murmur"


def test_no_profile_is_no_problem(home: Path) -> None:
    assert load(home, "") == ()


def test_every_fault_of_every_profile_is_told_at_once_with_its_key(home: Path) -> None:
    found = problems(
        home,
        """
        [[profile]]
        name = "Not A Name"
        command = ["true"]
        roots = ["/srv"]
        [[profile]]
        name = "worker"
        comand = ["true"]
        limit_s = 0
        max = "many"
        [[profile]]
        name = "other"
        roots = ["srv"]
        groups = ["#"]
        harness = "cloude"
        ready = "pattern"
        [profile.env]
        FLEETTRIO_TOKEN = "x"
        "A B" = "x"
        [[profile]]
        name = "other"
        command = ["true"]
        roots = ["/srv"]
        """,
    )
    assert [problem.split(":", 1)[0] for problem in found] == [
        "profile[0].name",
        "profile.worker.comand",
        "profile.worker.limit_s",
        "profile.worker.max",
        "profile.other.command",
        "profile.other.env.FLEETTRIO_TOKEN",
        "profile.other.env.A B",
        "profile.other.harness",
        "profile.other.roots",
        "profile.other.pattern",
        "profile.other.groups",
        "profile.other.name",
    ]
    assert 'did you mean "command"?' in found[1]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"runtime": '"herdr"', "sandbox": '["bwrap"]'}, "profile.worker.sandbox: herdr starts agents by their kind"),
        ({"runtime": '"process"', "ready": '"quiet"'}, "profile.worker.ready: 'quiet' needs a program that runs on"),
        ({"ready": '"port"'}, "profile.worker.port: missing"),
        ({"pattern": '"x"'}, "profile.worker.pattern: has no effect"),
        ({"ready": '"pattern"', "pattern": '"("'}, "profile.worker.pattern: is not a regular expression"),
        ({"ready": '"quiet"', "quiet_s": "9", "limit_s": "9"}, "profile.worker.quiet_s: must be shorter"),
        ({"cwd": '"/etc"'}, "profile.worker.cwd: /etc lies under none of its roots"),
        ({"roots": "[]"}, "profile.worker.roots: name at least one folder"),
        ({"command": "[]"}, "profile.worker.command: missing"),
    ],
)
def test_what_cannot_work_is_a_sentence_with_its_key(home: Path, values: dict[str, str], expected: str) -> None:
    (problem,) = problems(home, profile(**values))
    assert problem.startswith(expected)


@pytest.mark.parametrize("text", ["profile = 3\n", 'profile = ["x"]\n'])
def test_what_is_no_list_of_tables_is_said(home: Path, text: str) -> None:
    (problem,) = problems(home, text)
    assert "[[profile]]" in problem


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda file: file.stem)
def test_the_example_profiles_are_taken_as_they_are(home: Path, file: Path) -> None:
    assert load(home, file.read_text(encoding="utf-8"))
