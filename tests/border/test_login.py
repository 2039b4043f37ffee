"""Getting in: TLS, logins and lists of brokers, each refusal in words a person can act on."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from fleettrio.broker.amqp import open_border, open_session
from fleettrio.broker.port import BrokerSettings
from fleettrio.errors import ConfigError, LoginRefused, PortRefused, ProtocolMisuse, SessionLost
from fleettrio.private_files import write_private
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.certificates import make_certificates
from fleettrio.testing.proxy import Proxy
from tests.border.inbox import LIMIT_S


async def enter(settings: BrokerSettings) -> None:
    """Open a session and use it."""
    async with open_session(settings, 1) as session:
        assert await session.message_count("unknown") is None


async def test_tls_with_the_right_authority_and_name(border: None, broker: BrokerNode, vhost: str) -> None:
    await enter(BrokerSettings(uris=(broker.uri(vhost=vhost, secure=True),), ca_file=str(broker.ca_file)))


async def test_tls_with_another_authority_is_refused(
    border: None, broker: BrokerNode, vhost: str, tmp_path: Path
) -> None:
    make_certificates(tmp_path, "localhost")
    with pytest.raises(SessionLost, match="certificate is not accepted"):
        await enter(BrokerSettings(uris=(broker.uri(vhost=vhost, secure=True),), ca_file=str(tmp_path / "ca.pem")))


async def test_tls_with_another_name_is_refused(border: None, broker: BrokerNode, vhost: str) -> None:
    uri = broker.uri(vhost=vhost, secure=True).replace("localhost", "127.0.0.1")
    with pytest.raises(SessionLost, match=r"not valid for '127\.0\.0\.1'"):
        await enter(BrokerSettings(uris=(uri,), ca_file=str(broker.ca_file)))


async def test_a_missing_authority_file_is_a_fault_of_the_configuration(border: None, broker: BrokerNode) -> None:
    with pytest.raises(ConfigError, match="ca_file"):
        await enter(BrokerSettings(uris=(broker.uri(secure=True),), ca_file="/nowhere/ca.pem"))


async def test_a_refused_login_says_so_and_shows_no_password(border: None, broker: BrokerNode) -> None:
    uri = broker.uri("guest", password="wrong-secret")
    with pytest.raises(LoginRefused, match="login of user guest is refused") as refused:
        await enter(BrokerSettings(uris=(uri,)))
    assert refused.value.reason == "refused-login"
    assert "wrong-secret" not in str(refused.value)


async def test_a_virtual_host_one_is_not_let_into_is_a_refused_login(border: None, broker: BrokerNode) -> None:
    with pytest.raises(LoginRefused, match="virtual host no-such-host"):
        await enter(BrokerSettings(uris=(broker.uri(vhost="no-such-host"),)))


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_a_port_on_which_nobody_listens_is_told_apart(border: None, name: str) -> None:
    with Proxy(0) as nobody:
        nobody.refuse()
        with pytest.raises(PortRefused, match=f"{name}:{nobody.port}: connection refused, no broker listens there"):
            await enter(BrokerSettings(uris=(f"amqp://guest@{name}:{nobody.port}/",)))


async def test_the_password_is_read_anew_at_each_connect(
    border: None, broker: BrokerNode, vhost: str, tmp_path: Path
) -> None:
    broker.add_user("rotating", "new-password", vhost, ".*", ".*", ".*")
    file = tmp_path / "password"
    write_private(file, b"old-password\n", replace=False)
    settings = BrokerSettings(uris=(broker.uri(vhost=vhost),), user="rotating", password_file=str(file))
    with pytest.raises(LoginRefused):
        await enter(settings)
    write_private(file, b"new-password\n", replace=True)
    await enter(settings)
    await trio.Path(file).unlink()
    with pytest.raises(LoginRefused, match="does not exist"):
        await enter(settings)


async def test_a_password_file_that_others_may_read_is_refused(
    border: None, broker: BrokerNode, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    write_private(file, b"secret", replace=False)
    await trio.Path(file).chmod(0o640)
    with pytest.raises(ConfigError, match="can be used by others"):
        await enter(BrokerSettings(uris=(broker.uri(),), user="guest", password_file=str(file)))


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("amqp://broker.example/fleet", "plain amqp:// to broker.example"),
        ("amqps://broker.example/fleet?no_verify_ssl=1", "takes no options"),
        ("amqps://user:secret@broker.example/fleet?verify=0#x", "takes no options"),
        ("http://broker.example", "must begin with amqps://"),
        ("amqps:///fleet", "names no host"),
        ("amqps://[bad", "is not a URI"),
    ],
)
async def test_a_uri_that_must_not_be_used_is_refused_without_being_shown(border: None, uri: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        await enter(BrokerSettings(uris=(uri,)))
    assert "broker.uris[0]" in str(refused.value)
    assert "secret" not in str(refused.value)


async def test_all_problems_are_told_at_once(border: None) -> None:
    with pytest.raises(ConfigError) as refused:
        await enter(BrokerSettings(uris=("amqp://one.example", "http://two.example")))
    assert len(refused.value.problems) == 2


async def test_brokers_are_tried_in_turn_and_the_last_good_one_first(
    border: None, broker: BrokerNode, vhost: str
) -> None:
    async with await _silent_listener() as listener:
        silent = f"amqp://127.0.0.1:{listener.socket.getsockname()[1]}"
        settings = BrokerSettings(uris=(silent, broker.uri(vhost=vhost)), connect_limit_s=8.0)
        begun = trio.current_time()
        await enter(settings)
        assert trio.current_time() - begun >= 8.0
        begun = trio.current_time()
        await enter(settings)
        assert trio.current_time() - begun < 8.0


async def test_a_broker_that_says_nothing_is_given_up_at_the_limit(border: None) -> None:
    async with await _silent_listener() as listener:
        uri = f"amqp://127.0.0.1:{listener.socket.getsockname()[1]}"
        with trio.fail_after(LIMIT_S), pytest.raises(SessionLost, match=r"no answer within 0\.2 s"):
            await enter(BrokerSettings(uris=(uri,), connect_limit_s=0.2))


async def test_connecting_can_be_cancelled_at_once(border: None) -> None:
    async with await _silent_listener() as listener:
        uri = f"amqp://127.0.0.1:{listener.socket.getsockname()[1]}"
        begun = trio.current_time()
        with trio.move_on_after(0.1) as scope:
            await enter(BrokerSettings(uris=(uri,), connect_limit_s=60))
        assert scope.cancelled_caught
        assert trio.current_time() - begun < 30


async def test_a_port_nobody_listens_on_is_named(border: None) -> None:
    with pytest.raises(SessionLost, match=r"127\.0\.0\.1:1: "):
        await enter(BrokerSettings(uris=("amqp://127.0.0.1:1",)))


async def test_a_session_needs_the_border_open() -> None:
    with pytest.raises(ProtocolMisuse, match="open_border"):
        await enter(BrokerSettings(uris=("amqp://127.0.0.1:1",)))


async def test_the_border_can_be_opened_again(broker: BrokerNode, vhost: str) -> None:
    for _ in range(2):
        async with open_border():
            await enter(BrokerSettings(uris=(broker.uri(vhost=vhost),)))


async def _silent_listener() -> trio.SocketListener:
    """Takes connections into its backlog and never says a word."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    return listeners[0]
