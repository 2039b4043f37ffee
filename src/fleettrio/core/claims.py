"""Claims: who works on what. The first who asks for a key has it, everybody else learns who that is.

    free ──claim──► held ──release, holder gone──► free
                     │ ▲
      10 min without │ │ claim by the same holder
      its holder     ▼ │
                   lapsed ──claim --lapsed──► held by another, with the next fence

Rules:
1. One arbiter a key: the host named in it (`beta:issue-149`), else the host whose message carries the claim, else the
   host where it is asked. Only the arbiter decides; one that cannot be reached is an error, never a guess.
2. A claim is renewed by its holder being there: idle, working or blocked. It lapses 10 minutes after that last was.
   Nobody gets a lapsed key by itself: somebody must say so.
3. Every grant has a fence, higher than all before it on this host. Acts of an old holder, or with an old fence, fail.
4. A claim is recorded before anybody is told of it.
5. A grant whose asker no longer waits for the answer is taken back: nobody holds a key without knowing it.
6. A message that carries a claim lands only with the one who has it; for the others it ends `claimed-by`. Nobody can
   have a key of a host that is not in the fleet: such a message is not sent, and one that comes ends `claim-undecided`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fleettrio.core.actions import Action, RecordClaim
from fleettrio.core.compose import Identity
from fleettrio.core.forward import CLOSED
from fleettrio.core.roster import Roster
from fleettrio.core.rows import Claim
from fleettrio.core.rpc import Failure, Rpc
from fleettrio.ids import Gid, HostId, Now, WallMs
from fleettrio.wire.gids import derive_gid, is_gid

__all__ = ("LEASE_MS", "Claims", "key_problem", "no_such_arbiter", "split_key")

LEASE_MS = 10 * 60 * 1000
ANNOUNCED_MS = 15_000
"""By then an entity has been heard of wherever its host is heard."""
MOST_CLAIMS = 100_000
MOST_LISTED = 200
KEY_MOST = 200


def split_key(key: str) -> tuple[HostId | None, str]:
    """The host that a key names as its arbiter, if it does, and the key as that host knows it."""
    host, colon, bare = key.partition(":")
    return (HostId(host), bare) if colon and bare else (None, key)


def no_such_arbiter(host: HostId) -> str:
    """What is wrong with a key that names `host`, which is not in the fleet."""
    return f"no host {host!r} is in the fleet: what stands before a colon names the host that decides"


def key_problem(key: str) -> str:
    """What is wrong with a key, its arbiter's name taken off, that somebody here wants; empty when nothing is."""
    if not 0 < len(key) <= KEY_MOST or not key.isprintable() or key != key.strip():
        return f"a key is 1 to {KEY_MOST} printable characters, without blanks around it"
    return f"{key!r} names a host and no key" if key.endswith(":") else ""


class Claims:
    def __init__(self, me: Identity, roster: Roster, rpc: Rpc, kept: Iterable[Claim]) -> None:
        self._me = me
        self._roster = roster
        self.rows: dict[str, Claim] = {claim.key: claim for claim in kept}
        self._fence = max((claim.fence for claim in self.rows.values()), default=0)
        rpc.procedures.update({"claim": self._on_claim, "release": self._on_release, "claims": self._on_list})
        rpc.undoing["claim"] = self._undo_claim

    # --- deciding

    def claim(
        self, key: str, gid: Gid, host: HostId, now: Now, *, take_lapsed: bool = False
    ) -> tuple[Claim, list[Action]]:
        """The claim as it is after `gid` asked for it: its own or another's. Raises `Failure`: there are too many."""
        known = self.rows.get(key)
        if known is not None and known.holder and not self._is_gone(known, now):
            if known.holder != gid and not (take_lapsed and self.is_lapsed(known, now)):
                return known, []
            if known.holder == gid:
                return self._record(msgspec.structs.replace(known, lease=_lease(now)), known)
        elif known is None and len(self.rows) >= MOST_CLAIMS:
            raise Failure(f"{self._me.host} has {MOST_CLAIMS} claims: release some")
        self._fence += 1
        granted = Claim(key=key, holder=gid, host=host, fence=self._fence, at=now.wall, lease=_lease(now))
        return self._record(granted, known)

    def release(self, key: str, gid: Gid, fence: int | None, now: Now) -> list[Action]:
        """Let go of it. Raises `Failure` for whoever does not hold it (any more)."""
        known = self.rows.get(key)
        if known is None or not known.holder:
            raise Failure(f"nobody holds {key!r}")
        if known.holder != gid:
            raise Failure(f"{key!r} is held by {self._address(known)} (fence {known.fence})")
        if fence is not None and fence != known.fence:
            raise Failure(f"{key!r} was granted anew since: its fence is {known.fence}, not {fence}")
        return self._free(known, now)

    def gone(self, gid: Gid, now: Now) -> list[Action]:
        """An entity of this host is gone for good: what it held is free."""
        held = [claim for claim in self.rows.values() if claim.holder == gid]
        return [action for claim in held for action in self._free(claim, now)]

    def is_lapsed(self, claim: Claim, now: Now) -> bool:
        """Nobody has seen its holder at work for 10 minutes."""
        seen = self._seen_until(claim, now)
        return now.wall > max(claim.lease, 0 if seen is None else seen + LEASE_MS)

    def undo(self, action: RecordClaim, _: Now) -> None:
        """The store could not record it: it is as it was."""
        if action.before is None:
            self.rows.pop(action.claim.key, None)
        else:
            self.rows[action.claim.key] = action.before

    # --- inside

    def _record(self, claim: Claim, before: Claim | None) -> tuple[Claim, list[Action]]:
        self.rows[claim.key] = claim
        return claim, [RecordClaim(claim, before)]

    def _free(self, claim: Claim, now: Now) -> list[Action]:
        free = msgspec.structs.replace(claim, holder=Gid(""), at=now.wall, lease=now.wall)
        return self._record(free, claim)[1]

    def _seen_until(self, claim: Claim, now: Now) -> WallMs | None:
        """When its holder was last there."""
        if entity := self._roster.entities.get(claim.holder):
            return entity.since if entity.status in CLOSED else now.wall
        other, peer = self._roster.others.get(claim.holder), self._roster.peers.get(claim.host)
        if other is None or peer is None:
            return None
        return min(other.since, peer.heard_at) if other.status in CLOSED else peer.heard_at

    def _is_gone(self, claim: Claim, now: Now) -> bool:
        """Its holder is known not to exist any more: its host's roster, known whole, does not have it.

        An agent may claim before its first presence is here: right after the grant that proves nothing.
        """
        if claim.host == self._me.host:
            return claim.holder not in self._roster.entities
        peer = self._roster.peers.get(claim.host)
        if peer is None or peer.roster_rev < 0 or claim.holder in self._roster.others:
            return False
        return peer.heard_at > claim.lease - LEASE_MS + ANNOUNCED_MS

    def _address(self, claim: Claim) -> str:
        return self._roster.address(claim.holder, claim.host)

    # --- asked by a host (this one included)

    def _on_claim(self, host: HostId, args: Mapping[str, Any], now: Now) -> tuple[Any, list[Action]]:
        key, gid = self._who(host, args)
        newest = self._fence
        claim, actions = self.claim(key, gid, host, now, take_lapsed=args.get("lapsed") is True)
        return self._described(claim, now) | {"granted": claim.holder == gid, "new": claim.fence > newest}, actions

    def _undo_claim(self, said: Any, now: Now) -> list[Action]:
        """Of a grant that was new and was not asked for again. `said` is the result of `_on_claim`."""
        known = self.rows.get(said["key"])
        if not said["new"] or known is None or not known.holder or known.fence != said["fence"]:
            return []
        return self._free(known, now) if known.lease == known.at + LEASE_MS else []

    def _on_release(self, host: HostId, args: Mapping[str, Any], now: Now) -> tuple[Any, list[Action]]:
        key, gid = self._who(host, args)
        fence = args.get("fence")
        actions = self.release(key, gid, fence if isinstance(fence, int) else None, now)
        return {"key": key}, actions

    def _on_list(self, host: HostId, args: Mapping[str, Any], now: Now) -> tuple[Any, list[Action]]:
        held = [claim for claim in self.rows.values() if claim.holder and not self._is_gone(claim, now)]
        listed = sorted(held, key=lambda claim: claim.key)[:MOST_LISTED]
        return {"claims": [self._described(claim, now) for claim in listed], "cut": len(held) > len(listed)}, []

    def _who(self, host: HostId, args: Mapping[str, Any]) -> tuple[str, Gid]:
        """The key, and the asking entity, which must live on the asking host."""
        key, gid, salt = args.get("key"), args.get("gid"), args.get("salt")
        if not isinstance(key, str) or not 0 < len(key) <= KEY_MOST or not key.isprintable():
            raise Failure(f"a key is 1 to {KEY_MOST} printable characters")
        if not isinstance(gid, str) or not isinstance(salt, bytes) or not is_gid(gid) or len(salt) != 16:
            raise Failure("a claim names who claims: `gid` and `salt`")
        if derive_gid(self._me.fleet_id, host, salt) != gid:
            raise Failure(f"that entity does not live on {host}")
        return key, Gid(gid)

    def _described(self, claim: Claim, now: Now) -> dict[str, Any]:
        return {
            "key": claim.key,
            "holder": str(claim.holder),
            "name": self._address(claim),
            "fence": claim.fence,
            "at": int(claim.at),
            "lapsed": self.is_lapsed(claim, now),
        }


def _lease(now: Now) -> WallMs:
    return WallMs(now.wall + LEASE_MS)
