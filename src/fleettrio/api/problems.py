"""What is wrong with this host and its fleet, each with what mends it: the daemon's part of `doctor`."""

from __future__ import annotations

import shutil

from fleettrio.api.schema import Check
from fleettrio.api.trust import Trust
from fleettrio.config import Config
from fleettrio.core.link import Link, LinkState
from fleettrio.perform import Performer

__all__ = ("Problems", "broker_word")

CLOCK_WARN_MS = 5_000
DISK_LOW = 200 * 1024 * 1024

_WORDS = {
    LinkState.STANDALONE: "standalone",
    LinkState.UP: "connected",
    LinkState.SUSPECT: "suspect",
    LinkState.BLOCKED: "blocked",
    LinkState.DOWN: "connecting",
}


def broker_word(link: Link) -> str:
    """The state of the link in the word of `schema.Status`."""
    if link.state is LinkState.DOWN and "login" in link.detail:
        return "refused-login"
    return _WORDS[link.state]


class Problems:
    def __init__(self, performer: Performer, config: Config, trust: Trust) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._config = config
        self._trust = trust

    def well(self) -> list[Check]:
        """What is well and worth saying so."""
        gateway = self._gateway
        checks = []
        if gateway.link.state in (LinkState.UP, LinkState.STANDALONE):
            checks.append(Check("broker", True, broker_word(gateway.link)))
        if not gateway.store_trouble:
            checks.append(Check("store", True, f"{self._performer.store.size_bytes() // 1024} KiB"))
        return checks

    def found(self) -> list[Check]:
        own = self._trust.problem
        return [
            *(
                [Check("own key", False, own, "give this host's line to the fleet's owner: fleettrio init")]
                if own
                else []
            ),
            *self._link_problems(),
            *self._store_problems(),
            *self._peer_problems(),
            *self._agent_problems(),
        ]

    def _link_problems(self) -> list[Check]:
        link = self._gateway.link
        match link.state:
            case LinkState.UP | LinkState.STANDALONE:
                return []
            case LinkState.BLOCKED:
                detail = f"the broker takes no messages: {link.detail}"
                return [Check("broker", False, detail, "free memory or disk on the broker's machine")]
            case LinkState.SUSPECT:
                detail = "the broker is connected but does not answer"
                return [Check("broker", False, detail, "look at the broker's machine: is it frozen?")]
            case _:
                fix = "start the broker, or correct [broker] uris in fleettrio.toml"
                if "login" in link.detail:
                    fix = "correct [broker] user and the password in its password_file"
                return [Check("broker", False, link.detail or "not connected yet", fix)]

    def _store_problems(self) -> list[Check]:
        problems = []
        mark, now = self._gateway.mark, self._performer.clock.now()
        if mark.is_ahead(now):
            detail = (
                f"the clock is {(mark.highest - now.wall) // 1000} s behind what it was: nothing is put into agents"
            )
            problems.append(Check("clock", False, detail, "set it right; if it is right: fleettrio doctor --fix clock"))
        if self._gateway.store_trouble:
            problems.append(Check("store", False, self._gateway.store_trouble, "free some disk space"))
        free = shutil.disk_usage(self._config.paths.state_dir).free
        if free < DISK_LOW:
            detail = f"{free // (1024 * 1024)} MiB are free where messages are kept"
            problems.append(Check("disk", False, detail, "free some disk space"))
        return problems

    def _peer_problems(self) -> list[Check]:
        problems = []
        for peer in self._gateway.roster.peers.values():
            host = peer.host
            if peer.we_refuse:
                fix = f"get a fleet file that names {host}: fleettrio host import FILE"
                problems.append(Check(f"trust {host}", False, f"we refuse {host}: {peer.we_refuse}", fix))
            if peer.refuses_us:
                fix = f"on {host}: fleettrio host import FILE (made here with fleettrio host export)"
                problems.append(Check(f"trust {host}", False, f"{host} refuses us: {peer.refuses_us}", fix))
            if abs(peer.offset_ms) > CLOCK_WARN_MS:
                ahead = "ahead of" if peer.offset_ms > 0 else "behind"
                detail = f"the clock of {host} is {abs(peer.offset_ms) / 1000:.0f} s {ahead} ours"
                problems.append(Check(f"clock {host}", False, detail, "set both clocks: timedatectl set-ntp true"))
        return problems

    def _agent_problems(self) -> list[Check]:
        problems = []
        for gid, trouble in self._gateway.inbox_state.items():
            entity = self._gateway.roster.entities.get(gid)
            if entity is not None and trouble != "open":
                fix = "find the other gateway that uses this host's name, and end it"
                problems.append(Check(f"inbox {entity.name}", False, f"its broker queue is {trouble}", fix))
        if self._gateway.refusals.by_reason["conflict"]:
            problems.append(Check("conflict", False, "a message came with a known id and other bytes", "read the log"))
        return problems
