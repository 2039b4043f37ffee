"""Where the broker is and how we log in to it: URIs, user and password, TLS.

Rules: a URI carries no options (the libraries' own switch verification off); TLS verifies certificate and host name;
plaintext stays on loopback unless the configuration allows it; a password is read anew for each connection, so that it
can rotate; nothing but `host:port` is ever shown.
"""

from __future__ import annotations

import dataclasses
import errno
import ipaddress
import ssl
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from fleettrio.broker.port import BrokerSettings
from fleettrio.errors import ConfigError, LoginRefused
from fleettrio.private_files import read_private

__all__ = ("Address", "addresses", "is_refused", "tls_context", "uri_problems")

_PORTS = {"amqp": 5672, "amqps": 5671}


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """One broker to try. Only `str()` of it may reach a message."""

    host: str
    port: int
    vhost: str
    user: str
    password: str = dataclasses.field(repr=False)
    secure: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses(settings: BrokerSettings) -> tuple[Address, ...]:
    """The brokers of `settings.uris` in order, with the login as it is on disk now.

    Raises `ConfigError` with every problem, `LoginRefused` when there is no password file just now. A user in
    `settings` stands before one in a URI; with neither it is guest.
    """
    problems = uri_problems(settings) if settings.uris else ["broker.uris: give at least one"]
    if problems:
        raise ConfigError(problems)
    password = _password(settings)
    found: list[Address] = []
    for parts in map(urlsplit, settings.uris):
        user = settings.user or unquote(parts.username or "guest")
        found.append(
            Address(
                host=parts.hostname or "",
                port=parts.port or _PORTS[parts.scheme],
                vhost=unquote(parts.path[1:]) or "/",
                user=user,
                password=_first(password, unquote(parts.password or ""), "guest" if user == "guest" else ""),
                secure=parts.scheme == "amqps",
            )
        )
    return tuple(found)


def uri_problems(settings: BrokerSettings) -> list[str]:
    """What is wrong with the URIs, one line for each bad one. A URI is named by its place: it may hold a password."""
    problems: list[str] = []
    for place, uri in enumerate(settings.uris):
        try:
            parts = urlsplit(uri)
            _ = parts.port
        except ValueError:
            complaint = "is not a URI"
        else:
            complaint = _complaint(parts, settings)
        if complaint:
            problems.append(f"broker.uris[{place}]: {complaint}")
    return problems


def _first(*choices: str) -> str:
    return next((choice for choice in choices if choice), "")


def _password(settings: BrokerSettings) -> str:
    if not settings.password_file:
        return ""
    content = read_private(Path(settings.password_file))
    if content is None:
        # Not a ConfigError: a rotation that removes the old file first must not end the daemon.
        raise LoginRefused(f"broker.password_file: {settings.password_file} does not exist")
    try:
        return content.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ConfigError([f"broker.password_file: {settings.password_file} is not UTF-8 text"]) from error


def _complaint(parts: SplitResult, settings: BrokerSettings) -> str:
    """What is wrong with a URI, without showing it; empty when nothing is."""
    if parts.scheme not in _PORTS:
        return "must begin with amqps:// (or amqp://)"
    if not parts.hostname:
        return "names no host, as in amqps://broker.example:5671/fleet"
    if parts.query or parts.fragment:
        return "takes no options behind '?' or '#': TLS is always verified, use ca_file and heartbeat_s for the rest"
    if parts.scheme == "amqp" and not settings.allow_plaintext and not _is_loopback(parts.hostname):
        return (
            f"plain amqp:// to {parts.hostname} would show password and messages to the network:"
            " use amqps://, or set broker.allow_plaintext = true"
        )
    return ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def tls_context(ca_file: str) -> ssl.SSLContext:
    """Verifies certificate and host name, TLS 1.2 or newer; trusts `ca_file`, or the system's when it is empty."""
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError([f"broker.ca_file: {ca_file} cannot be used: {error.strerror or error}"]) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def is_refused(error: BaseException) -> bool:
    """Whether nobody listens there. For a name with several addresses the error is one text, without a number."""
    number = errno.ECONNREFUSED
    return isinstance(error, OSError) and (error.errno == number or f"[Errno {number}]" in str(error))
