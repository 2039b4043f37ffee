"""What a host's own login may do at the broker: the least with which its gateway works.

It declares, reads and writes what carries its own name, reads and writes the fleet's exchanges, and makes itself heard
in the roster under its own name alone. In a coordinator's vhost its own is the mailbox of its lead. Only a reporter
reads the dead letters. Nobody writes to the default exchange, which would go past all of this.
"""

from __future__ import annotations

import re
import shlex

import msgspec

from fleettrio.core.topology import ROSTER

__all__ = ("Permissions", "coordinator_permissions_of", "permissions_of", "rabbitmqctl_lines")

_DEAD_LETTERS = r"|^fleet\.dlq"


class Permissions(msgspec.Struct, frozen=True):
    """Patterns as RabbitMQ takes them: of names of queues and exchanges, and of routing keys of `topic_exchange`."""

    configure: str
    write: str
    read: str
    topic_exchange: str = ""
    """Empty: there is none."""
    topic_write: str = ""
    topic_read: str = ""


def permissions_of(host: str, *, is_reporter: bool = False) -> Permissions:
    """The patterns of the login of `host`."""
    name = re.escape(host)
    own = rf"^agent\..+\.inbox\.v2\.{name}$|^control\.{name}$|^roster\.{name}\."
    return Permissions(
        configure=own,
        write=rf"{own}|^fleet\.(msg|roster|control|dlx|ops)$",
        read=rf"{own}|^fleet\.(msg|roster|control|ops)$" + (_DEAD_LETTERS if is_reporter else ""),
        topic_exchange=ROSTER,
        topic_write=rf"^roster\.{name}\.",
        topic_read=".*",
    )


def coordinator_permissions_of(host: str, coord_id: str, *, is_reporter: bool = False) -> Permissions:
    """The patterns of the login of `host`, whose lead is `coord_id`, in the coordinator's vhost."""
    own = rf"^lead\.{re.escape(coord_id)}\.mailbox$|^control\.{re.escape(host)}$"
    return Permissions(
        configure=own,
        write=rf"{own}|^fleet\.(control|dlx|ops)$",
        read=rf"{own}|^fleet\.(control|ops)$" + (_DEAD_LETTERS if is_reporter else ""),
    )


def rabbitmqctl_lines(vhost: str, user: str, rights: Permissions) -> list[str]:
    """The commands that give `user` these rights, and no others, in `vhost`; each is one line for a shell."""
    lines = [["set_permissions", "-p", vhost, user, rights.configure, rights.write, rights.read]]
    if rights.topic_exchange:
        topics = [rights.topic_exchange, rights.topic_write, rights.topic_read]
        lines.append(["set_topic_permissions", "-p", vhost, user, *topics])
    return [shlex.join(["rabbitmqctl", *line]) for line in lines]
