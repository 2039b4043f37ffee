"""The configuration: defaults, file, environment; and every problem at once, with its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleettrio.broker.port import BrokerSettings
from fleettrio.config import Config, default_host_id, environment_keys, load_config, resolve_paths
from fleettrio.errors import ConfigError
from fleettrio.home import SOCKET_PATH_LIMIT, make_run_dir
from fleettrio.wire.gids import is_name


def load(home: Path, text: str = "", **env: str) -> Config:
    if text:
        home.joinpath("fleettrio.toml").write_text(text)
    return load_config({"FLEETTRIO_HOME": str(home), **env})


def problems(home: Path, text: str = "", **env: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(home, text, **env)
    return list(caught.value.problems)


def test_without_a_file_everything_has_a_default_and_there_is_no_broker(home: Path) -> None:
    config = load(home)
    assert config.is_standalone
    assert config.broker() is None
    assert is_name(config.host_id)
    assert config.limits.body_bytes == 256 * 1024


def test_one_home_holds_configuration_state_and_socket(home: Path) -> None:
    paths = load(home).paths
    assert paths.config_file == home / "fleettrio.toml"
    for inside in (paths.store, paths.key_file, paths.fleet_file, paths.lock, paths.token_file):
        assert inside.is_relative_to(home / "state")
    assert paths.socket.is_relative_to(home / "run")


def test_without_a_home_the_platform_says_where(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "s"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "r"))
    paths = resolve_paths({})
    assert "fleettrio" in str(paths.config_file)
    assert len({paths.config_dir, paths.state_dir, paths.run_dir}) == 3


def test_every_session_of_a_user_finds_the_same_socket(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """A login session has XDG_RUNTIME_DIR, a cron job of the same user has not."""
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "s"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "r"))
    in_session = resolve_paths({}).socket
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert resolve_paths({}).socket == in_session
    assert in_session.is_relative_to(home / "s")


def test_a_relative_home_is_refused_with_the_line_that_mends_it() -> None:
    with pytest.raises(ConfigError, match="relative path") as caught:
        resolve_paths({"FLEETTRIO_HOME": "here"})
    assert str(Path.cwd() / "here") in caught.value.hint


def test_the_sockets_folder_is_made_for_its_owner_alone(home: Path) -> None:
    paths = resolve_paths({"FLEETTRIO_HOME": str(home)})
    make_run_dir(paths)
    assert paths.run_dir.stat().st_mode & 0o777 == 0o700
    paths.run_dir.rmdir()
    paths.run_dir.symlink_to(home)
    with pytest.raises(ConfigError, match="symlink"):
        make_run_dir(paths)
    paths.run_dir.unlink()
    paths.run_dir.write_text("a file")
    with pytest.raises(ConfigError, match="cannot be made"):
        make_run_dir(paths)


def test_a_misspelt_section_in_a_variable_names_the_near_setting(home: Path) -> None:
    assert problems(home, FLEETTRIO_BROKR_URIS="amqps://h") == [
        'FLEETTRIO_BROKR_URIS: no such setting; did you mean "FLEETTRIO_BROKER_URIS"?'
    ]


@pytest.mark.parametrize(
    "name", ["TOKEN", "CLOCK_OFFSET_MS", "FAILPOINT", "MSG_ID", "NO_EXTENSIONS", "FAULT_ROUNDS", "EXPECT"]
)
def test_a_variable_that_is_no_setting_is_left_alone(home: Path, name: str) -> None:
    assert load(home, **{f"FLEETTRIO_{name}": "x"}).is_standalone


def test_the_file_is_read_into_broker_settings(home: Path) -> None:
    config = load(
        home,
        """
        [host]
        id = "alpha"
        [broker]
        uris = ["amqps://one.example:5671/fleet", "amqps://two.example/fleet"]
        user = "alpha"
        password_file = "login/password"
        ca_file = "/etc/fleet/ca.pem"
        heartbeat_s = 5
        """,
    )
    assert config.host_id == "alpha"
    assert config.broker() == BrokerSettings(
        uris=("amqps://one.example:5671/fleet", "amqps://two.example/fleet"),
        user="alpha",
        password_file=str(home / "login/password"),
        ca_file="/etc/fleet/ca.pem",
        heartbeat_s=5,
    )


def test_the_environment_overrides_the_file(home: Path) -> None:
    config = load(
        home,
        '[host]\nid = "alpha"\n[timers]\nbeat_s = 9\n',
        FLEETTRIO_HOST_ID="beta",
        FLEETTRIO_TIMERS_BEAT_S="0.5",
        FLEETTRIO_LIMITS_BODY_BYTES="4096",
        FLEETTRIO_BROKER_URIS="amqp://127.0.0.1:1, amqp://127.0.0.1:2",
        FLEETTRIO_BROKER_ALLOW_PLAINTEXT="yes",
    )
    assert (config.host_id, config.timers.beat_s, config.limits.body_bytes) == ("beta", 0.5, 4096)
    assert config.broker_section.uris == ("amqp://127.0.0.1:1", "amqp://127.0.0.1:2")
    assert config.broker_section.allow_plaintext


def test_every_override_names_an_existing_key_and_none_hides_another() -> None:
    keys = environment_keys()
    assert keys["FLEETTRIO_BROKER_PASSWORD_FILE"] == ("broker", "password_file")
    assert len(set(keys.values())) == len(keys)


def test_every_problem_is_reported_at_once_with_its_key(home: Path) -> None:
    found = problems(
        home,
        """
        [host]
        id = "Alpha Centauri"
        [broker]
        uris = ["http://broker.example"]
        heartbeat_s = 1
        alow_plaintext = true
        [limits]
        body_bytes = "much"
        [log]
        level = "loud"
        [brokr]
        """,
        FLEETTRIO_TIMERS_GRACE_S="soon",
    )
    keys = {problem.split(":", 1)[0] for problem in found}
    assert keys == {
        "host.id",
        "broker.uris[0]",
        "broker.heartbeat_s",
        "broker.alow_plaintext",
        "limits.body_bytes",
        "log.level",
        "brokr",
        "FLEETTRIO_TIMERS_GRACE_S",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[broker]\nalow_plaintext = true\nuris = ['amqp://h']", '"allow_plaintext"'),
        ("[brokr]\n", '"broker"'),
        ("[log]\nlevle = 'info'", '"level"'),
        ("[limits]\nzzz = 1", "there are: body_bytes"),
    ],
)
def test_an_unknown_key_names_the_nearest_one(home: Path, text: str, expected: str) -> None:
    (problem,) = problems(home, text)
    assert expected in problem


def test_an_unknown_override_names_the_nearest_one(home: Path) -> None:
    (problem,) = problems(home, FLEETTRIO_BROKER_URI="amqp://h")
    assert '"FLEETTRIO_BROKER_URIS"' in problem


def test_variables_that_are_no_settings_are_left_alone(home: Path) -> None:
    load(home, FLEETTRIO_TOKEN="t", FLEETTRIO_FAILPOINT="x", FLEETTRIO_CLOCK_OFFSET_MS="5")


@pytest.mark.parametrize("section", ["profile", "coordinator", "notify", "metrics", "dashboard", "regions"])
def test_a_section_of_a_later_version_is_named_as_such(home: Path, section: str) -> None:
    (problem,) = problems(home, f"[{section}]\n")
    assert "not supported yet" in problem


@pytest.mark.parametrize("text", ["[host", "host = 3", b"\xff\xfe".decode("latin-1")])
def test_a_file_that_is_no_configuration_is_one_clear_problem(home: Path, text: str) -> None:
    home.joinpath("fleettrio.toml").write_bytes(text.encode("latin-1"))
    assert len(problems(home)) == 1


def test_a_broker_section_without_a_uri_is_a_mistake(home: Path) -> None:
    (problem,) = problems(home, '[broker]\nuser = "a"\n')
    assert problem.startswith("broker.uris:")


@pytest.mark.parametrize("uri", ["amqps://me:hunter2@[broken", "ftp://me:hunter2@host", "amqps://me:hunter2@host:port"])
def test_a_uri_is_never_repeated_in_a_problem(home: Path, uri: str) -> None:
    assert "hunter2" not in "\n".join(problems(home, f'[broker]\nuris = ["{uri}"]\n'))


def test_a_password_in_the_wrong_key_is_not_repeated(home: Path) -> None:
    (problem,) = problems(home, '[broker]\nuris = ["amqp://h"]\nheartbeat_s = "hunter2"\n')
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("Annas-MacBook.local", "annas-macbook"),
        ("gpu_box.example.org", "gpu-box"),
        ("all", "host-all"),
        ("日本", "host"),
        ("x" * 40, "x" * 32),
        ("-.-", "host"),
    ],
)
def test_a_host_name_becomes_a_valid_id(machine: str, expected: str) -> None:
    assert default_host_id(machine) == expected
    assert is_name(expected)


def test_a_socket_path_too_long_for_the_system_says_what_to_do(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * SOCKET_PATH_LIMIT)
    with pytest.raises(ConfigError) as caught:
        resolve_paths({"FLEETTRIO_HOME": str(deep)})
    assert "FLEETTRIO_HOME" in caught.value.hint
