"""Keys on disk and the fleet file: what is made, what is refused, and what stays the same."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fleettrio.config import Config, load_config
from fleettrio.errors import ConfigError
from fleettrio.fleet_owner import FLEET_LIFE_MS, add_host, create_fleet, revoke_host
from fleettrio.identity import Identity, find_identity, import_fleet, load_fleet, load_identity
from fleettrio.ids import FleetId, HostId, WallMs
from fleettrio.keyfiles import make_host_key, make_operator_token, read_host_key, rename_host
from fleettrio.wire.fleet import DEFAULT_GRANTS, Fleet, HostKey
from fleettrio.wire.hostline import host_line, read_host_line

NOW = WallMs(1_800_000_000_000)


def config_of(home: Path, host: str) -> Config:
    return load_config({"FLEETTRIO_HOME": str(home / host), "FLEETTRIO_HOST_ID": host})


def join(home: Path, host: str) -> tuple[Config, Identity]:
    config = config_of(home, host)
    return config, load_identity(config.paths, config)


def public(identity: Identity) -> HostKey:
    return read_host_line(host_line(identity.host, identity.key_gen, identity.seed))


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*") if path.is_file()}


def test_a_host_without_a_key_becomes_a_fleet_of_its_own_and_stays_it(home: Path) -> None:
    config, first = join(home, "alpha")
    assert find_identity(config.paths, config) == first
    again = load_identity(config.paths, config)
    assert (first.is_solo, first.fleet_id.startswith("solo-"), first.host) == (True, True, "alpha")
    assert again == first
    assert first.fleet.key("alpha", 1) == public(first).key
    assert first.fleet.allows("alpha", "SEND")


def test_looking_for_an_identity_makes_none(home: Path) -> None:
    config = config_of(home, "alpha")
    assert find_identity(config.paths, config) is None
    assert not config.paths.state_dir.exists()


def test_every_secret_is_private_and_in_a_private_folder(home: Path) -> None:
    config, _ = join(home, "alpha")
    create_fleet(config.paths, FleetId("prod"), NOW)
    assert modes(config.paths.state_dir) == {0o600}
    assert stat.S_IMODE(config.paths.keys_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(config.paths.state_dir.stat().st_mode) == 0o700


def test_the_seed_is_not_in_the_repr(home: Path) -> None:
    _, identity = join(home, "alpha")
    assert identity.seed.hex() not in repr(identity)
    assert repr(identity.seed) not in repr(identity)


def test_the_id_beside_the_key_outlives_the_machines_name(home: Path) -> None:
    config, _ = join(home, "alpha")
    renamed = load_config({"FLEETTRIO_HOME": str(config.paths.config_dir)})
    assert load_identity(renamed.paths, renamed).host == "alpha"


def test_a_configured_id_that_is_not_the_keys_is_refused(home: Path) -> None:
    config, _ = join(home, "alpha")
    other = load_config({"FLEETTRIO_HOME": str(config.paths.config_dir), "FLEETTRIO_HOST_ID": "beta"})
    with pytest.raises(ConfigError, match=r"host\.id"):
        load_identity(other.paths, other)


def test_a_host_may_change_its_id_only_before_others_know_it(home: Path) -> None:
    config, before = join(home, "alpha")
    renamed = rename_host(config.paths, HostId("gamma"))
    assert (renamed.host, renamed.seed_bytes) == ("gamma", before.seed)
    config.paths.store.touch()
    with pytest.raises(ConfigError, match="keeps its id"):
        rename_host(config.paths, HostId("delta"))


@pytest.mark.parametrize(("which", "mode"), [("key_file", 0o640), ("token_file", 0o604), ("keys_dir", 0o750)])
def test_a_loose_mode_is_refused_with_the_line_that_mends_it(home: Path, which: str, mode: int) -> None:
    config, _ = join(home, "alpha")
    target: Path = getattr(config.paths, which)
    target.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        load_identity(config.paths, config)
    subprocess.run(caught.value.hint, shell=True, check=True)  # noqa: S602  the hint is what a person would paste
    load_identity(config.paths, config)


def test_a_symlink_in_the_place_of_a_key_is_refused(home: Path) -> None:
    config, _ = join(home, "alpha")
    real = config.paths.key_file.rename(home / "elsewhere.json")
    config.paths.key_file.symlink_to(real)
    with pytest.raises(ConfigError, match="symlink"):
        load_identity(config.paths, config)


def test_a_symlink_in_the_place_of_the_keys_folder_is_refused(home: Path) -> None:
    config, _ = join(home, "alpha")
    real = config.paths.keys_dir.rename(home / "keys")
    config.paths.keys_dir.symlink_to(real)
    with pytest.raises(ConfigError, match="symlink"):
        load_identity(config.paths, config)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"host":"alpha","gen":1,"seed":"00","solo":"solo-1"}', b"\xff" * 40])
def test_a_damaged_key_is_refused_and_never_replaced(home: Path, content: bytes) -> None:
    config, _ = join(home, "alpha")
    config.paths.key_file.write_bytes(content)
    with pytest.raises(ConfigError, match="damaged"):
        load_identity(config.paths, config)
    assert config.paths.key_file.read_bytes() == content


def test_two_processes_that_make_the_key_at_once_get_the_same_one(home: Path) -> None:
    script = (
        "import os, sys; from fleettrio.config import load_config; from fleettrio.identity import load_identity;"
        "sys.stdin.read(); c = load_config(os.environ); print(load_identity(c.paths, c).seed.hex())"
    )
    env = {**os.environ, "FLEETTRIO_HOME": str(home), "FLEETTRIO_HOST_ID": "alpha"}
    racers = [
        subprocess.Popen([sys.executable, "-c", script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    seeds = {racer.communicate(timeout=180)[0] for racer in racers}
    assert len(seeds) == 1
    assert len(seeds.pop().strip()) == 64


def test_the_operators_token_is_made_once(home: Path) -> None:
    paths = config_of(home, "alpha").paths
    token = make_operator_token(paths)
    assert len(token) >= 43
    assert make_operator_token(paths) == token


def test_a_fleet_is_founded_with_its_owners_host_in_it(home: Path) -> None:
    config, solo = join(home, "alpha")
    fleet = create_fleet(config.paths, FleetId("prod"), NOW)
    identity = load_identity(config.paths, config)
    assert (identity.is_solo, identity.fleet_id, identity.fleet.rev, identity.problem) == (False, "prod", 1, "")
    assert identity.seed == solo.seed
    assert fleet == identity.fleet == load_fleet(config.paths)
    assert fleet.grants("alpha") == DEFAULT_GRANTS | {"report"}
    assert fleet.not_after == NOW + FLEET_LIFE_MS
    with pytest.raises(ConfigError, match="already in a fleet"):
        create_fleet(config.paths, FleetId("prod2"), NOW)


def test_a_host_that_was_added_and_imported_the_file_is_trusted_by_both(home: Path) -> None:
    (alpha, _), (beta, solo) = join(home, "alpha"), join(home, "beta")
    create_fleet(alpha.paths, FleetId("prod"), NOW)
    add_host(alpha.paths, public(solo), DEFAULT_GRANTS, NOW)
    asked = []

    def ask(fleet: Fleet) -> bool:
        asked.append(fleet)
        return True

    import_fleet(beta.paths, alpha.paths.fleet_file.read_bytes(), ask)
    there = load_identity(beta.paths, beta)
    assert asked == [there.fleet]
    assert (there.fleet_id, there.fleet.rev, there.problem) == ("prod", 2, "")
    assert set(there.fleet.hosts) == {"alpha", "beta"}


def test_a_second_import_asks_nothing_and_takes_only_the_same_owner_and_no_lower_revision(home: Path) -> None:
    (alpha, _), (beta, solo), (evil, _) = join(home, "alpha"), join(home, "beta"), join(home, "evil")
    create_fleet(alpha.paths, FleetId("prod"), NOW)
    first = alpha.paths.fleet_file.read_bytes()
    add_host(alpha.paths, public(solo), DEFAULT_GRANTS, NOW)
    second = alpha.paths.fleet_file.read_bytes()
    import_fleet(beta.paths, second, lambda _fleet: True)

    def never(_fleet: object) -> bool:
        raise AssertionError("asked again")

    import_fleet(beta.paths, second, never)
    with pytest.raises(ConfigError, match="revision 1"):
        import_fleet(beta.paths, first, never)
    create_fleet(evil.paths, FleetId("prod"), NOW)
    with pytest.raises(ConfigError, match="another owner"):
        import_fleet(beta.paths, evil.paths.fleet_file.read_bytes(), never)
    assert beta.paths.fleet_file.read_bytes() == second


def test_an_owner_that_was_not_accepted_changes_nothing(home: Path) -> None:
    (alpha, _), (beta, _) = join(home, "alpha"), join(home, "beta")
    create_fleet(alpha.paths, FleetId("prod"), NOW)
    with pytest.raises(ConfigError, match="not accepted"):
        import_fleet(beta.paths, alpha.paths.fleet_file.read_bytes(), lambda _fleet: False)
    assert load_identity(beta.paths, beta).is_solo


def test_an_altered_fleet_file_on_disk_is_refused(home: Path) -> None:
    config, _ = join(home, "alpha")
    create_fleet(config.paths, FleetId("prod"), NOW)
    data = bytearray(config.paths.fleet_file.read_bytes())
    data[len(data) // 2] ^= 1
    config.paths.fleet_file.write_bytes(data)
    with pytest.raises(ConfigError, match="fleet file"):
        load_identity(config.paths, config)


def test_only_the_owners_host_changes_the_fleet(home: Path) -> None:
    (alpha, _), (beta, solo) = join(home, "alpha"), join(home, "beta")
    create_fleet(alpha.paths, FleetId("prod"), NOW)
    import_fleet(beta.paths, alpha.paths.fleet_file.read_bytes(), lambda _fleet: True)
    with pytest.raises(ConfigError, match="owner's host"):
        add_host(beta.paths, public(solo), DEFAULT_GRANTS, NOW)
    with pytest.raises(ConfigError, match="owner's host"):
        revoke_host(beta.paths, HostId("alpha"), NOW)


def test_a_host_outside_the_fleet_file_is_told_so(home: Path) -> None:
    (alpha, _), (beta, _) = join(home, "alpha"), join(home, "beta")
    create_fleet(alpha.paths, FleetId("prod"), NOW)
    import_fleet(beta.paths, alpha.paths.fleet_file.read_bytes(), lambda _fleet: True)
    assert "host add" in load_identity(beta.paths, beta).problem


def test_grants_change_with_the_same_key_and_another_key_is_refused(home: Path) -> None:
    (alpha, _), (_, solo), (_, other) = join(home, "alpha"), join(home, "beta"), join(home, "gamma")
    create_fleet(alpha.paths, FleetId("prod"), NOW)
    add_host(alpha.paths, public(solo), DEFAULT_GRANTS, NOW)
    fleet = add_host(alpha.paths, public(solo), frozenset({"send"}), NOW)
    assert (fleet.rev, fleet.grants("beta")) == (3, frozenset({"send"}))
    stranger = read_host_line(host_line("beta", 1, other.seed))
    with pytest.raises(ConfigError, match="another key"):
        add_host(alpha.paths, stranger, DEFAULT_GRANTS, NOW)


def test_a_revoked_host_stays_revoked(home: Path) -> None:
    (alpha, _), (beta, solo) = join(home, "alpha"), join(home, "beta")
    create_fleet(alpha.paths, FleetId("prod"), NOW)
    add_host(alpha.paths, public(solo), DEFAULT_GRANTS, NOW)
    fleet = revoke_host(alpha.paths, HostId("beta"), NOW)
    assert fleet.key("beta", 1) == "revoked"
    assert load_fleet(alpha.paths) == fleet
    for gone in ("beta", "nobody", "alpha"):
        with pytest.raises(ConfigError):
            revoke_host(alpha.paths, HostId(gone), NOW)
    with pytest.raises(ConfigError, match="was revoked"):
        add_host(alpha.paths, public(solo), DEFAULT_GRANTS, NOW)
    assert load_fleet(alpha.paths) == fleet
    import_fleet(beta.paths, alpha.paths.fleet_file.read_bytes(), lambda _fleet: True)
    assert "revoked" in load_identity(beta.paths, beta).problem


def test_a_key_is_never_made_twice(home: Path) -> None:
    paths = config_of(home, "alpha").paths
    first = make_host_key(paths, HostId("alpha"))
    assert make_host_key(paths, HostId("other")) == first == read_host_key(paths)
