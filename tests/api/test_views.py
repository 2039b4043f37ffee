"""What `status`, `doctor`, `list` and `ping` say of a host that is in trouble: the cause, and what mends it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.health import Health
from fleettrio.api.refused import REVOKED
from fleettrio.api.rpc import CallError, Connection
from fleettrio.api.trust import Trust
from fleettrio.api.views import inbox_view, sent_view
from fleettrio.config import Config, load_config
from fleettrio.core import events as ev
from fleettrio.core.ledger import Limits
from fleettrio.identity import load_identity
from fleettrio.ids import Now, WallMs
from fleettrio.local.port import AgentState
from fleettrio.perform import Performer
from fleettrio.store.store import open_store
from fleettrio.tasks.notify import Notifier
from fleettrio.wire.fleet import Fleet, FleetHost
from tests.core.builders import Clock, Host, fleet_of, pair
from tests.core.messages import brief

ANYBODY = Caller()
TAKEN = "consumer of control.beta: ACCESS_REFUSED - queue 'control.beta' in vhost '/' in exclusive use"


class _Clock:
    """The world's clock, as the shell reads it."""

    def __init__(self, world: Clock) -> None:
        self._world = world

    def now(self) -> Now:
        return self._world.now


class Desk:
    """What a person at one host is shown of it."""

    def __init__(self, host: Host, config: Config, performer: Performer) -> None:
        identity = load_identity(config.paths, config)
        self.host, self.sightings = host, performer.sightings
        self.trust = Trust(config, identity, host.verifier, performer)
        notifier = Notifier(config.notify, performer, {})
        self._health = Health(performer, config, WallMs(host.clock.wall), self.trust, lambda: None, notifier, {})
        self._connection = Connection(pid=1, uid=0)

    async def status(self) -> schema.Status:
        return await self._health.status(schema.Empty(), ANYBODY, self._connection)

    async def host_view(self, name: str) -> schema.HostView:
        return next(host for host in (await self.status()).fleet.hosts if host.host == name)

    async def doctor(self) -> dict[str, schema.Check]:
        """What is wrong, by the name of the check."""
        report = await self._health.doctor(schema.Empty(), ANYBODY, self._connection)
        return {check.name: check for check in report.checks if not check.ok}

    async def refused_ping(self, target: str) -> CallError:
        with pytest.raises(CallError) as refused:
            await self._health.ping(schema.Ping(target), ANYBODY, self._connection)
        return refused.value


@contextlib.asynccontextmanager
async def desk_at(host: Host, home: Path, env: dict[str, str] | None = None) -> AsyncIterator[Desk]:
    config = load_config({"FLEETTRIO_HOME": str(home)} if env is None else env)
    async with open_store(config.paths.store) as store:
        watches, watched = trio.open_memory_channel[object](16)
        with watches, watched:
            performer = Performer(host.gateway, store, _Clock(host.clock), watches, watches)
            yield Desk(host, config, performer)


def _revoking(*names: str, of: tuple[str, ...] = ("alpha", "beta")) -> Fleet:
    return fleet_of(of, revoked=names, rev=2)


# --- revocation


async def test_a_revoked_host_is_told_that_only_a_new_id_brings_it_back(tmp_path: Path) -> None:
    _, _, beta = pair()
    beta.trust(_revoking("beta"))
    async with desk_at(beta, tmp_path) as desk:
        found = await desk.doctor()
        assert found["own key"].detail == REVOKED
        status = await desk.status()
        assert status.problems == [REVOKED]
        assert status.next_step == REVOKED
        assert not any("host import" in line for line in (*status.problems, status.next_step))
        assert (await desk.host_view("beta")).status == "revoked"
        assert (await desk.refused_ping("alpha")).hint == REVOKED


async def test_a_host_that_others_call_revoked_is_told_the_same(tmp_path: Path) -> None:
    _, alpha, beta = pair()
    beta.gateway.roster.note_refusal(alpha.name, by_them="revoked")
    async with desk_at(beta, tmp_path) as desk:
        found = await desk.doctor()
        assert list(found) == ["own key"]
        assert found["own key"].detail == f"{REVOKED} (so says alpha)"


async def test_a_brief_refused_for_a_revoked_key_does_not_send_to_the_fleet_file() -> None:
    _, alpha, beta = pair()
    beta.trust(_revoking("alpha"))
    msg_id, _ = brief(alpha, beta)
    (notice,) = beta.taken()
    alpha.get(beta.signed(notice))
    sentence = sent_view(alpha.sent(msg_id), alpha.gateway, WallMs(alpha.clock.wall)).sentence
    assert "needs a new host id in a new FLEETTRIO_HOME" in sentence
    assert "host add" not in sentence


async def test_a_host_that_we_revoked_is_no_problem_of_ours(tmp_path: Path) -> None:
    _, alpha, beta = pair()
    beta.trust(_revoking("alpha"))
    brief(alpha, beta)
    assert beta.gateway.roster.peers[alpha.name].we_refuse == "revoked"
    async with desk_at(beta, tmp_path) as desk:
        assert await desk.doctor() == {}
        assert (await desk.status()).problems == []
        assert (await desk.host_view("alpha")).status == "revoked"


# --- ping


async def test_a_ping_of_a_revoked_host_says_so_at_once(tmp_path: Path) -> None:
    _, _, beta = pair()
    beta.trust(_revoking("alpha"))
    async with desk_at(beta, tmp_path) as desk:
        refused = await desk.refused_ping("alpha")
        assert (refused.exit_code, refused.reason) == (3, "revoked")
        assert "alpha is revoked" in str(refused)


async def test_a_ping_without_a_broker_says_what_to_do(tmp_path: Path) -> None:
    _, _, beta = pair()
    beta.run(ev.SessionClosed(1, "127.0.0.1:5672: connection refused, no broker listens there"))
    async with desk_at(beta, tmp_path) as desk:
        refused = await desk.refused_ping("alpha")
        assert (refused.exit_code, refused.reason) == (8, "broker-unreachable")
        assert "start the broker" in refused.hint


async def test_a_ping_from_a_host_without_a_broker_says_how_to_get_one(tmp_path: Path) -> None:
    solo = Host("beta", Clock(), fleet_of(("alpha", "beta")), standalone=True)
    async with desk_at(solo, tmp_path) as desk:
        refused = await desk.refused_ping("alpha")
        assert refused.exit_code == 8
        assert "fleettrio init --broker URI" in refused.hint


# --- the link


async def test_a_second_daemon_with_this_hosts_name_is_called_that(tmp_path: Path) -> None:
    _, _, beta = pair()
    beta.run(ev.SessionClosed(1, TAKEN))
    async with desk_at(beta, tmp_path) as desk:
        check = (await desk.doctor())["broker"]
        assert check.detail == "another daemon uses this host's name (control.beta is consumed by it)"
        assert check.fix == "end that other daemon, or give this home another host id"


async def test_a_broker_that_is_not_there_is_no_second_daemon(tmp_path: Path) -> None:
    _, _, beta = pair()
    for detail in ("connection refused", "access to queue 'control.beta' in vhost '/' refused for user 'x'"):
        beta.run(ev.SessionClosed(1, detail))
        async with desk_at(beta, tmp_path / str(len(detail))) as desk:
            assert "start the broker" in (await desk.doctor())["broker"].fix


# --- agents


async def test_the_ways_into_an_agent_begin_with_its_hooks_once_they_were_heard(tmp_path: Path) -> None:
    _, _, beta = pair()
    async with desk_at(beta, tmp_path) as desk:

        async def path() -> str:
            return next(one.path for one in (await desk.status()).fleet.agents if one.name == "worker")

        assert await path() == "tmux"
        desk.sightings.told(beta.gid("worker"), AgentState.IDLE, beta.clock.now.wall)
        assert await path() == "hook, tmux"
        desk.sightings.forget(beta.gid("worker"))
        assert await path() == "tmux"
        desk.sightings.called(beta.gid("worker"))
        assert await path() == "hook, tmux"


async def test_an_agent_that_is_away_while_messages_wait_is_a_problem(tmp_path: Path) -> None:
    _, alpha, beta = pair()
    beta.run(ev.Detached(beta.call(), beta.gid("worker"), forget=False))
    async with desk_at(beta, tmp_path) as desk:
        assert await desk.doctor() == {}, "nothing waits for it"
        brief(alpha, beta)
        status = await desk.status()
        wanted = "worker is away, 1 message waits: start it and `fleettrio attach --name worker …`"
        assert status.problems == [wanted]
        assert status.next_step == "start it and `fleettrio attach --name worker …`"


async def test_an_agent_that_takes_nothing_for_a_minute_is_a_problem_with_its_reason(tmp_path: Path) -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    brief(alpha, beta)
    async with desk_at(beta, tmp_path) as desk:
        for _ in range(2):
            beta.run(ev.AgentNotReady(beta.gid("worker"), msg_id, "a draft is in its composer", "idle"))
            assert await desk.doctor() == {}
            beta.clock.advance(50)
        check = (await desk.doctor())["agent worker"]
        assert check.detail == "worker has taken nothing for 100 s (a draft is in its composer), 2 messages wait"
        assert "%1" in check.fix


async def test_a_message_that_came_just_now_is_not_late_for_an_older_ones_reason(tmp_path: Path) -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta, expires_in_ms=30_000)
    beta.run(ev.AgentNotReady(beta.gid("worker"), msg_id, "a draft", "idle"))
    beta.clock.advance(90)
    beta.expire()
    brief(alpha, beta)
    async with desk_at(beta, tmp_path) as desk:
        assert await desk.doctor() == {}


async def test_a_full_inbox_is_a_problem(tmp_path: Path) -> None:
    _, alpha, beta = pair(limits=Limits(messages=2))
    for _ in range(2):
        brief(beta, alpha, "lead@alpha")
    async with desk_at(alpha, tmp_path) as desk:
        check = (await desk.doctor())["agent lead"]
        assert check.detail == "the inbox of lead is full, 2 messages wait"
        assert check.fix == "no more is taken until lead takes some: fleettrio inbox --take"


# --- hosts and homes


async def test_only_a_host_that_was_heard_can_be_trusted_both_ways(tmp_path: Path) -> None:
    _, _, beta = pair()
    beta.trust(fleet_of(("alpha", "beta", "gamma"), rev=2))
    async with desk_at(beta, tmp_path) as desk:
        gamma = await desk.host_view("gamma")
        assert (gamma.status, gamma.heard_at, gamma.trusted) == ("never-heard", 0, True)
        assert (await desk.host_view("alpha")).heard_at > 0


async def test_a_host_that_is_not_in_its_own_fleet_file_shows_it(tmp_path: Path) -> None:
    _, _, beta = pair()
    async with desk_at(beta, tmp_path) as desk:
        assert (await desk.host_view("beta")).trusted
        desk.trust.problem = "host 'beta' is not in the fleet file"
        assert not (await desk.host_view("beta")).trusted


async def test_a_key_of_a_later_generation_is_not_revoked_with_the_first(tmp_path: Path) -> None:
    _, alpha, beta = pair()
    fleet = _revoking("alpha")
    first = fleet.hosts[alpha.name]
    second = FleetHost(first.host, (*first.keys, type(first.keys[0])(first.host, 2, b"2" * 32)), first.grants)
    beta.trust(Fleet(fleet.fleet_id, 3, fleet.not_after, {**fleet.hosts, first.host: second}, fleet.revoked, bytes(32)))
    async with desk_at(beta, tmp_path) as desk:
        assert (await desk.host_view("alpha")).status == "up"


async def test_the_home_is_the_folder_that_fleettrio_home_names(tmp_path: Path) -> None:
    _, _, beta = pair()
    async with desk_at(beta, tmp_path / "home") as desk:
        assert (await desk.status()).home == str(tmp_path / "home")


async def test_without_fleettrio_home_it_is_the_folder_with_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, beta = pair()
    with tempfile.TemporaryDirectory() as short:  # a socket's path is short, and the folders of a test run are not
        for name in ("CONFIG", "STATE"):
            monkeypatch.setenv(f"XDG_{name}_HOME", f"{short}/{name.lower()}")
        async with desk_at(beta, tmp_path, env={}) as desk:
            status = await desk.status()
            assert status.home == str(load_config({}).paths.state_dir)
            assert Path(status.home).is_relative_to(short)


# --- both sides of one message


async def test_the_two_sides_of_a_message_to_a_neighbour_can_be_told_apart() -> None:
    _, _, beta = pair()
    msg_id = beta.send("worker", sender="human")
    sent = sent_view(beta.sent(msg_id), beta.gateway, WallMs(beta.clock.wall))
    received = inbox_view(beta.row(msg_id, "worker"), beta.gateway, WallMs(beta.clock.wall))
    assert (sent.msg_id, sent.gid) == (received.msg_id, received.gid)
    assert (sent.direction, received.direction) == ("out", "in")
