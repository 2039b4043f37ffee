"""The configuration: defaults, file, environment; and every problem at once, with its key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleettrio.broker.port import BrokerSettings
from fleettrio.config import SECTIONS, Config, default_host_id, load_config, resolve_paths
from fleettrio.core.news import NEWS
from fleettrio.errors import ConfigError
from fleettrio.home import SOCKET_PATH_LIMIT, make_run_dir
from fleettrio.notify_section import NotifySection
from fleettrio.overrides import override_keys
from fleettrio.wire.gids import is_name

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = [
    pytest.param(text, id=f"{page.stem}-{place}")
    for page in PAGES
    for place, text in enumerate(re.findall(r"^```toml\n(\[.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
]


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
    "name", ["TOKEN", "NAME", "CLOCK_OFFSET_MS", "FAILPOINT", "MSG_ID", "NO_EXTENSIONS", "FAULT_ROUNDS", "EXPECT"]
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
        fast_lane = false
        """,
    )
    assert config.host_id == "alpha"
    assert config.broker() == BrokerSettings(
        uris=("amqps://one.example:5671/fleet", "amqps://two.example/fleet"),
        user="alpha",
        password_file=str(home / "login/password"),
        ca_file="/etc/fleet/ca.pem",
        heartbeat_s=5,
        fast_lane=False,
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
    keys = override_keys(SECTIONS)
    assert keys["FLEETTRIO_BROKER_PASSWORD_FILE"] == ("broker", "password_file")
    assert len(set(keys.values())) == len(keys)


@pytest.mark.parametrize("text", SHOWN)
def test_every_configuration_that_a_page_shows_is_a_good_one(home: Path, text: str) -> None:
    load(home, text)


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


@pytest.mark.parametrize("section", ["metrics", "dashboard", "regions"])
def test_a_section_of_a_later_version_is_named_as_such(home: Path, section: str) -> None:
    (problem,) = problems(home, f"[{section}]\n")
    assert "not supported yet" in problem


def test_notify_tells_of_everything_by_no_way_until_a_way_is_given(home: Path) -> None:
    assert not load(home).notify.is_on
    config = load(home, '[notify]\non = ["reply"]\ncommand = ["notify-send", "fleettrio", "{text}"]\n')
    assert config.notify.is_on
    assert config.notify.on == ("reply",)
    assert load(home, FLEETTRIO_NOTIFY_BELL="yes").notify.is_on
    assert NotifySection().on == NEWS


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('on = ["replies"]', "notify.on"),
        ('command = "notify-send"', "notify.command"),
        ('command = [""]', "notify.command"),
        ('url = "http://ntfy.example/secret"', "notify.url"),
        ('url = "file:///etc/passwd"', "notify.url"),
        ('url = "https://"', "notify.url"),
        ("bodys = true", "notify.bodys"),
    ],
)
def test_what_is_wrong_with_notify_is_told_with_its_key_and_without_the_url(home: Path, text: str, key: str) -> None:
    (problem,) = problems(home, f"[notify]\n{text}\n")
    assert problem.startswith(key)
    assert "secret" not in problem


LEADS = '[coordinator]\ncoord_id = "lead-a"\nuris = ["amqps://hub/leads"]\n'


def test_a_coordinator_has_a_broker_of_its_own(home: Path) -> None:
    config = load(home, LEADS + 'user = "a"\npassword_file = "leads.password"\n')
    settings = config.coordinator_broker()
    assert settings is not None
    assert settings.uris == ("amqps://hub/leads",)
    assert settings.password_file == str(home / "leads.password")
    assert (config.coordinator.coord_id, config.coordinator.lead) == ("lead-a", "lead")
    assert config.is_standalone


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[coordinator]\nuris = ["amqps://hub/leads"]\n', "coordinator.coord_id: missing"),
        ('[coordinator]\ncoord_id = "a"\n', "coordinator.uris:"),
        (LEADS.replace("lead-a", "Lead A"), "coordinator.coord_id: 'Lead A'"),
        (LEADS + 'lead = "no one"\n', "coordinator.lead:"),
        (LEADS + 'password_file = "x"\n', "coordinator.user:"),
        (LEADS + 'coordId = "x"\n', "coordinator.coordId:"),
    ],
)
def test_a_mistake_about_the_coordinator_is_named(home: Path, text: str, key: str) -> None:
    (problem,) = problems(home, text)
    assert problem.startswith(key)


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
