"""`doctor` finds each planted fault and names what mends it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleettrio._accel import IMPLEMENTATION
from fleettrio.broker.libraries import why_stock
from fleettrio.private_files import write_private
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.ports import held_port
from fleettrio.testing.waiting import wait_until

IS_COMPILED = IMPLEMENTATION == "compiled"
"""Where the extension was left out on purpose, every doctor says so."""


@pytest.fixture
def pair(broker: BrokerNode) -> Iterator[Fleet]:
    with Fleet(broker, "alpha", "beta") as fleet:
        yield fleet


def _problems(host: Host, env: dict[str, str] | None = None) -> dict[str, str]:
    """Problem → fix, as a person reads them."""
    done = host.cli("doctor", "--json", env=env)
    found = {check["detail"]: check["fix"] for check in done.json()["checks"] if not check["ok"]}
    assert done.code == (3 if found else 0)
    return found


def _find(problems: dict[str, str], word: str) -> str:
    """The fix of the problem that says `word`."""
    fixes = [fix for detail, fix in problems.items() if word in detail]
    assert fixes, f"no problem says {word!r}: {problems}"
    return fixes[0]


def test_a_healthy_host_is_well_and_each_planted_fault_is_found(pair: Fleet) -> None:
    alpha, beta = pair["alpha"], pair["beta"]
    unfit = [problem for problem in _problems(alpha) if IS_COMPILED or "pure Python" not in problem]
    assert unfit == []
    if IS_COMPILED:
        assert alpha.ok("doctor").text.rstrip().endswith("all is well")

    # Programs that are missing.
    assert "apt-get install tmux" in _find(_problems(alpha, {"PATH": "/nonexistent"}), "not installed")
    assert "compiler" in _find(_problems(alpha, {"FLEETTRIO_NO_EXTENSIONS": "1"}), "pure Python")

    # A key that others can read.
    alpha.paths.key_file.chmod(0o644)
    assert f"chmod 600 {alpha.paths.key_file}" in _find(_problems(alpha), "0644")
    alpha.paths.key_file.chmod(0o600)

    # A clock that is wrong.
    beta.stop()
    beta.up({"FLEETTRIO_CLOCK_OFFSET_MS": "120000"})
    found = wait_until("the clock is noticed", lambda: [p for p in _problems(alpha).items() if "clock of beta" in p[0]])
    assert re.search(r" 1[012]\d s ahead of ours", found[0][0]), found  # less what a beat was under way
    assert "timedatectl set-ntp true" in found[0][1]
    beta.stop()
    beta.up()

    # A login that the broker refuses.
    alpha.stop()
    write_private(alpha.password_file, b"wrong\n", replace=True)
    alpha.up(broker=("refused-login", "connecting"))
    fix = wait_until("the login is refused", lambda: [f for d, f in _problems(alpha).items() if "login" in d])[0]
    assert "password_file" in fix
    alpha.stop()
    write_private(alpha.password_file, pair.logins["alpha"][1].encode(), replace=True)

    # No broker at all.
    with held_port() as nobody_listens:
        alpha.configure(pair.uri(nobody_listens.getsockname()[1]), *pair.logins["alpha"])
        alpha.up(broker=("connecting",))
        assert "start the broker" in _find(_problems(alpha), "refused")
        alpha.stop()
        problems = _problems(alpha)
        assert "start the broker" in _find(problems, "refused")
    assert _find(problems, "not running") == "fleettrio up"


def test_a_second_daemon_that_holds_the_home_is_found(tmp_path: Path) -> None:
    with Fleet(None, "solo") as alone:
        solo = alone["solo"]
        solo.paths.socket.unlink()  # it serves on, and nobody can reach it
        problems = _problems(solo)
        assert _find(problems, "a second daemon") == f"end it: kill {solo.pid}"


def test_the_lane_to_the_broker_is_named_and_either_one_carries_messages(pair: Fleet) -> None:
    alpha, beta = pair["alpha"], pair["beta"]
    for settings, lane in (({}, "stock" if why_stock() else "fast"), ({"FLEETTRIO_BROKER_FAST_LANE": "no"}, "stock")):
        beta.stop()
        beta.up(settings)
        assert beta.ok("status", "--json").json()["lane"] == lane
        assert f"{lane} lane" in beta.ok("status").text
        (check,) = (each for each in beta.cli("doctor", "--json").json()["checks"] if each["name"] == "lane")
        assert check["ok"]
        assert check["detail"].startswith(lane)
        assert f'"lane": "{lane}"' in beta.log
        wait_until("beta answers", lambda: alpha.cli("ping", "beta").code == 0)
    assert check["detail"] == "stock: the configuration says fast_lane = false"
