"""What the border has to know of the AMQP libraries: their versions, what is replaced inside them, how they fail.

Versions decide twice. Of other major ones nothing is known, and there is no border (`ConfigError`). The fast lane runs
with exactly those that it was written and tested against; others get the stock lane.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import ssl
from collections.abc import Iterator

import aiormq
import pamqp.decode
import pamqp.header
import pamqp.heartbeat
import trio
from aiormq.connection import Connection

from fleettrio.broker.fastlane import HEARTBEAT
from fleettrio.broker.login import Address, is_refused
from fleettrio.broker.port import BrokerSettings
from fleettrio.errors import ConfigError, LoginRefused, PortRefused, SessionLost
from fleettrio.wire.headers import read_content_header

__all__ = (
    "BLOCKED",
    "FAILURES",
    "FAST",
    "REFUSALS",
    "UNBLOCKED",
    "doubt_of",
    "in_words",
    "install_reader",
    "plain",
    "why_stock",
)

BLOCKED, UNBLOCKED = "_Connection__handle_connection_blocked", "_Connection__handle_connection_unblocked"
"""aiormq tells nobody that a connection is blocked. It looks these up on the instance, where they can be replaced."""
FAILURES = (aiormq.AMQPError, OSError, RuntimeError, EOFError, asyncio.TimeoutError)
"""What the libraries raise when a connection or AMQP channel is gone."""
REFUSALS: dict[type[Exception], int] = {
    aiormq.ChannelAccessRefused: 403,
    aiormq.ChannelNotFoundEntity: 404,
    aiormq.ChannelLockedResource: 405,
    aiormq.ChannelPreconditionFailed: 406,
}
_KNOWN = (("pamqp", "4."), ("aiormq", "7."), ("aio-pika", "10."), ("trio-asyncio", "0.16."))
FAST = (("pamqp", "4.0.1"), ("aiormq", "7.2.4"))
_LEAST_FRAME = 4096
"""AMQP's own lower limit of `frame_max`."""
_HINT = "Install fleettrio with the versions of its lock file."


def check_versions() -> None:
    """Raises `ConfigError` for a library of another major version."""
    for package, known in _KNOWN:
        version = importlib.metadata.version(package)
        if not version.startswith(known):
            raise ConfigError([f"{package} {version} is installed, this fleettrio needs {known}x"], hint=_HINT)


def install_reader() -> None:
    """Rule 6 of the border: pamqp ends the connection over what it cannot decode, again at every redelivery.

    Only content headers and short strings are read anew: the frames a publisher's bytes can reach. Raises `ConfigError`
    for libraries that are not as we know them.
    """
    check_versions()
    if not (
        callable(getattr(pamqp.header.ContentHeader, "unmarshal", None))
        and "shortstr" in pamqp.decode.METHODS
        and hasattr(Connection, BLOCKED)
        and hasattr(Connection, UNBLOCKED)
    ):
        raise ConfigError(["pamqp or aiormq has changed inside: messages could not be read safely"], hint=_HINT)
    pamqp.header.ContentHeader.unmarshal = _unmarshal  # type: ignore[method-assign]
    pamqp.decode.METHODS["shortstr"] = _short_str


def _unmarshal(self: pamqp.header.ContentHeader, data: bytes) -> None:
    """Takes the place of pamqp's decoder of content headers; `properties.headers` becomes our `RawHeaders`."""
    header = read_content_header(data)
    self.body_size = header.body_size
    self.properties.message_id = header.message_id or None
    self.properties.headers = header.headers  # type: ignore[assignment]


def _short_str(value: bytes) -> tuple[int, str]:
    """pamqp's, but a routing key that is not UTF-8 becomes one that nobody owns instead of the connection's end."""
    end = 1 + value[0]
    return end, value[1:end].decode("utf-8", "backslashreplace")


def why_stock() -> str:
    """Why connections have the stock lane with these libraries; empty when they may have the fast one."""
    for package, known in FAST:
        version = importlib.metadata.version(package)
        if version != known:
            return f"{package} {version} is installed, the fast lane knows {known}"
    if pamqp.heartbeat.Heartbeat().marshal() != HEARTBEAT:
        return "pamqp has another form of heartbeat than the lane slips in"
    return ""


def doubt_of(connection: Connection, writes_whole_frames: bool) -> str:
    """Why the fast lane must not begin on `connection`, which is open; empty when it may.

    It is what the lane leans on: its own writes come between any two of the library's, and frames may be so large.
    """
    if not writes_whole_frames:
        return "aiormq does not write whole frames"
    frame_max = getattr(getattr(connection, "connection_tune", None), "frame_max", None)
    if not isinstance(frame_max, int) or (frame_max != 0 and frame_max < _LEAST_FRAME):
        return f"aiormq says that the largest frame has {frame_max} bytes"
    return ""


def plain(error: BaseException | None) -> str:
    """What a library's error says, without what it must not show: several of them print the URL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, aiormq.AMQPError):
        return next((str(arg) for arg in reversed(error.args) if isinstance(arg, str) and arg), type(error).__name__)
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if error is None or isinstance(error, asyncio.CancelledError):
        return "the broker stopped answering"
    return type(error).__name__


@contextlib.contextmanager
def in_words(address: Address, settings: BrokerSettings) -> Iterator[None]:
    """Why there is no connection: `LoginRefused` or `SessionLost`, naming the broker and never its URL."""
    try:
        yield
    except trio.TooSlowError:
        raise SessionLost(f"{address}: no answer within {settings.connect_limit_s:g} s") from None
    except aiormq.ProbableAuthenticationError as error:
        raise LoginRefused(
            f"{address}: the login of user {address.user} is refused",
            hint="Check broker.user and broker.password_file against the broker's users.",
        ) from error
    except aiormq.InvalidFrameError as error:
        # The broker closes instead of opening; aiormq takes that for a broken frame and drops what it says.
        raise LoginRefused(
            f"{address}: user {address.user} is not let into the virtual host {address.vhost}",
            hint="Check that the virtual host exists and that this user has permissions in it.",
        ) from error
    except (*FAILURES, asyncio.CancelledError) as error:
        if is_refused(error):
            raise PortRefused(f"{address}: connection refused, no broker listens there") from error
        raise SessionLost(f"{address}: {plain(error)}") from error
