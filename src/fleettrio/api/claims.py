"""The methods of claims. The arbiter decides, on whatever host it is; who claims is who calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleettrio.api.callers import Caller
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.api.schema import base
from fleettrio.api.schema import claims as schema
from fleettrio.core.claims import key_problem, no_such_arbiter, split_key
from fleettrio.core.entity import Entity
from fleettrio.errors import FAILED, USAGE
from fleettrio.ids import Gid, HostId
from fleettrio.perform import Performer

__all__ = ("Claims", "check_key")

LIMIT_S = 10.0
"""For an arbiter elsewhere: a person waits."""


class Claims:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._gateway = performer.gateway

    def methods(self) -> dict[str, Handler]:
        return {"claim": self.claim, "release": self.release, "claims": self.claims}

    async def claim(self, params: schema.Claim, caller: Caller, connection: Connection) -> schema.Claimed:
        host, key = self._arbiter(params.key)
        check_key(key)
        args = {**self._who(caller, key), "lapsed": params.lapsed}
        return _claimed(await self._performer.call_gateway(host, "claim", args, LIMIT_S), host)

    async def release(self, params: schema.Release, caller: Caller, connection: Connection) -> base.Done:
        host, key = self._arbiter(params.key)
        args = {**self._who(caller, key), **({} if params.fence is None else {"fence": params.fence})}
        await self._performer.call_gateway(host, "release", args, LIMIT_S)
        return base.Done(f"{key!r} is free again at {host}")

    async def claims(self, params: schema.ListClaims, caller: Caller, connection: Connection) -> schema.Claims:
        host = self._known_host(params.host) if params.host else self._gateway.settings.me.host
        said = await self._performer.call_gateway(host, "claims", {}, LIMIT_S)
        listed = said.get("claims") if isinstance(said, dict) else None
        if not isinstance(listed, list | tuple):
            raise _not_understood(host)
        return schema.Claims(host, [_claimed(item, host) for item in listed], bool(said.get("cut")))

    def _arbiter(self, key: str) -> tuple[HostId, str]:
        named, bare = split_key(key)
        return (self._gateway.settings.me.host, bare) if named is None else (self._known_host(named), bare)

    def _known_host(self, name: str) -> HostId:
        """A host that is not known must not become a key of this host: two would hold the same."""
        host, roster = HostId(name), self._gateway.roster
        if not roster.is_of_fleet(host):
            known = ", ".join(sorted({self._gateway.settings.me.host, *roster.fleet_hosts}))
            raise CallError(USAGE, "no-such-host", no_such_arbiter(host), f"a key without a colon, or one of {known}")
        return host

    def _who(self, caller: Caller, key: str) -> Mapping[str, Any]:
        entity: Entity | None = self._gateway.roster.entities.get(Gid(caller.gid))
        if entity is None:
            problem = caller.problem or "nobody says who is calling"
            raise CallError(FAILED, "no-identity", problem, caller.hint or "fleettrio attach")
        return {"key": key, "gid": str(entity.gid), "salt": entity.salt}


def check_key(key: str) -> None:
    """Raises CallError for what nobody should claim; `key` may name its arbiter."""
    if problem := key_problem(split_key(key)[1]):
        raise CallError(USAGE, "bad-key", problem, "name what is worked on: issue-149, or beta:issue-149")


def _claimed(said: Any, arbiter: HostId) -> schema.Claimed:
    """What an arbiter said, which may be another version's, or a hostile one's."""
    match said:
        case {"key": str(key), "name": str(name), "fence": int(fence), "at": int(at), "lapsed": bool(lapsed)}:
            granted = said.get("granted") is True
            return schema.Claimed(
                key=key, arbiter=arbiter, granted=granted, holder=name, fence=fence, at=at, lapsed=lapsed
            )
    raise _not_understood(arbiter)


def _not_understood(host: HostId) -> CallError:
    text = f"{host} gave an answer that this host does not understand"
    return CallError(FAILED, "not-understood", text, "compare the versions: fleettrio list")
