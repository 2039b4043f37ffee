"""What is wrong with this host and its fleet, each with what mends it: the daemon's part of `doctor`."""

from __future__ import annotations

import shutil

from fleettrio.api.moments import ago
from fleettrio.api.refused import REVOKED
from fleettrio.api.schema import CLOCK_WARN_MS, KEPT_OFF, Check
from fleettrio.api.sentences import paused_words
from fleettrio.api.trust import Trust
from fleettrio.api.views import is_revoked
from fleettrio.config import Config, written_settings
from fleettrio.core.entity import Entity
from fleettrio.core.gateway import Gateway
from fleettrio.core.guard import LOOP
from fleettrio.core.link import Link, LinkState
from fleettrio.core.peer import Peer
from fleettrio.core.rows import InboxRow
from fleettrio.core.topology import control_queue
from fleettrio.ids import HostId, WallMs
from fleettrio.perform import Performer
from fleettrio.tasks.notify import Notifier

__all__ = ("Problems", "broker_word", "may_not_read")

DISK_LOW = 200 * 1024 * 1024
STUCK_MS = 60_000
"""A message that could not be put into its agent for so long is a person's business."""

SAFE_FIX = "read the log, mend it, then: fleettrio doctor --fix safe"
RESTART = "fleettrio config check, then fleettrio down and fleettrio up (agents live on, messages wait)"
COPY_FIX = "end the copy (give it a host id of its own), then here: fleettrio doctor --fix clone"

_WORDS = {
    LinkState.STANDALONE: "standalone",
    LinkState.UP: "connected",
    LinkState.SUSPECT: "suspect",
    LinkState.BLOCKED: "blocked",
    LinkState.DOWN: "connecting",
}


def broker_word(link: Link, *, is_kept_off: bool = False) -> str:
    """The state of the link in the word of `schema.Status`. `is_kept_off`: nobody tries to connect."""
    if link.state is LinkState.DOWN and is_kept_off:
        return KEPT_OFF
    if link.state is LinkState.DOWN and "login" in link.detail:
        return "refused-login"
    return _WORDS[link.state]


def may_not_read(gateway: Gateway, of_leads: bool) -> tuple[str, str]:
    """A login without the rights of a reporter: what is said of it, and the command whose lines give them."""
    option = f" --coordinator {gateway.coordination.coord_id}" if of_leads else ""
    text = f"this host's login may not read the dead letters of the {'leads' if of_leads else 'fleet'}"
    return text, f"fleettrio broker permissions {gateway.settings.me.host}{option} --reporter"


class Problems:
    def __init__(self, performer: Performer, config: Config, trust: Trust, notifier: Notifier) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._config = config
        self._trust = trust
        self._notifier = notifier
        self._settings = written_settings(config.paths.config_file)

    def well(self) -> list[Check]:
        """What is well and worth saying so."""
        gateway = self._gateway
        checks = []
        if gateway.link.state in (LinkState.UP, LinkState.STANDALONE):
            checks.append(Check("broker", True, broker_word(gateway.link)))
        if self._performer.session:
            lane, why = self._performer.session.broker.lane
            checks.append(Check("lane", True, f"{lane}: {why}" if why else lane))
        leads = gateway.coordination
        if leads.is_there and not self._coordinator_problems():
            reporters = ", ".join(leads.reporters()) or "nobody"
            detail = f"the lead here is {leads.coord_id}; what dies in a mailbox is told by {reporters}"
            checks.append(Check("coordinator", True, f"{broker_word(leads.link)}; {detail}"))
        if not gateway.store_fault.trouble:
            checks.append(Check("store", True, f"{self._performer.store.size_bytes() // 1024} KiB"))
        return checks

    def found(self) -> list[Check]:
        return [
            *self._start_problems(),
            *self._own_problems(),
            *self._link_problems(),
            *self._coordinator_problems(),
            *self._reporter_problems(),
            *self._store_problems(),
            *self._peer_problems(),
            *self._held_problems(),
            *self._agent_problems(),
            *self._notify_problems(),
        ]

    def out_of_date(self) -> str:
        """What this daemon cannot take up while it runs; empty when there is nothing."""
        settings, fleet_id = written_settings(self._config.paths.config_file), self._gateway.trust.fleet.fleet_id
        if fleet_id != self._gateway.settings.me.fleet_id:
            return f"this daemon was started before its host was in fleet {fleet_id}"
        if settings is not None and settings != self._settings:
            return "fleettrio.toml was changed since this daemon was started"
        return ""

    def _start_problems(self) -> list[Check]:
        why = self.out_of_date()
        return [Check("settings", False, why, RESTART)] if why else []

    def _notify_problems(self) -> list[Check]:
        fix = "correct [notify] in fleettrio.toml; fleettrio notify --test"
        return [
            Check("notify", False, f"nobody was notified by {way}: {problem}", fix)
            for way, problem in self._notifier.problems.items()
        ]

    @property
    def own_key_is_revoked(self) -> bool:
        """True when our own fleet file says so; then nobody takes what we say."""
        gateway, me = self._gateway, self._gateway.settings.me
        return gateway.trust.fleet.key(me.host, me.key_gen) == "revoked"

    @property
    def _copy(self) -> str:
        """What was seen of another machine with our key; until a person has looked, this host stays off the broker."""
        return self._gateway.epochs.copy

    @property
    def _apart(self) -> str:
        """What a person does about a host that keeps off the broker; empty when it does not."""
        return COPY_FIX if self._copy else SAFE_FIX if self._gateway.safe else ""

    def link_fix(self) -> str:
        """What a person does about a link that does not take messages now."""
        link = self._gateway.link
        match link.state:
            case _ if self._apart:
                return self._apart
            case LinkState.UP:
                return ""
            case LinkState.STANDALONE:
                return "give this host a broker: fleettrio init --broker URI"
            case LinkState.BLOCKED:
                return "free memory or disk on the broker's machine"
            case LinkState.SUSPECT:
                return "look at the broker's machine: is it frozen?"
            case _ if self._is_name_taken():
                return "end that other daemon, or give this home another host id"
            case _ if "login" in link.detail:
                return "correct [broker] user and the password in its password_file"
            case _:
                return "start the broker, or correct [broker] uris in fleettrio.toml"

    def _is_name_taken(self) -> bool:
        """The broker is well: it keeps our control queue for another connection."""
        queue, _ = control_queue(self._gateway.settings.me.host)
        detail = self._gateway.link.detail
        return queue.name in detail and "exclusive" in detail

    def _own_problems(self) -> list[Check]:
        if self._gateway.safe:
            detail = f"{self._gateway.link.detail}; nothing comes from the broker"
            return [Check("safe mode", False, detail, SAFE_FIX)]
        if self._copy:
            return [Check("own key", False, f"{self._copy}: both have stopped, local messages go on", COPY_FIX)]
        if self.own_key_is_revoked:
            return [Check("own key", False, REVOKED)]
        say_so = sorted(peer.host for peer in self._peers() if peer.refuses_us == "revoked")
        if say_so:
            return [Check("own key", False, f"{REVOKED} (so says {', '.join(say_so)})")]
        if self._trust.problem:
            fix = "give this host's line to the fleet's owner: fleettrio init"
            return [Check("own key", False, self._trust.problem, fix)]
        return []

    def _link_problems(self) -> list[Check]:
        link = self._gateway.link
        match link.state:
            case _ if self._apart:
                return []
            case LinkState.UP | LinkState.STANDALONE:
                return []
            case LinkState.BLOCKED:
                detail = f"the broker takes no messages: {link.detail}"
            case LinkState.SUSPECT:
                detail = "the broker is connected but does not answer"
            case _ if self._is_name_taken():
                queue, _ = control_queue(self._gateway.settings.me.host)
                detail = f"another daemon uses this host's name ({queue.name} is consumed by it)"
            case _:
                detail = link.detail or "not connected yet"
        return [Check("broker", False, detail, self.link_fix())]

    def _coordinator_problems(self) -> list[Check]:
        """The link to the coordinator's broker, and who the lead here is to other leads."""
        leads, settings = self._gateway.coordination, self._gateway.settings
        if settings.no_coordinator:
            fix = "fleettrio host import --coordinator FILE, then fleettrio down and fleettrio up"
            return [Check("coordinator", False, settings.no_coordinator, fix)]
        if leads.problem:
            return [Check("coordinator", False, *leads.problem)]
        if (why := leads.link.why_not()) and leads.is_there:
            fix = "start that broker, or correct [coordinator] in fleettrio.toml"
            return [Check("coordinator", False, why[1], fix)]
        if leads.mailbox.state not in ("open", ""):
            detail = f"the mailbox of {leads.coord_id} is {leads.mailbox.state}"
            return [Check("coordinator", False, detail, "end the other daemon that uses this coordId")]
        return []

    def _reporter_problems(self) -> list[Check]:
        """Dead letters that nobody is told of, unless another host is granted `report`, too."""
        sessions = (self._performer.session, False), (self._performer.coordinator, True)
        found = [
            may_not_read(self._gateway, of_leads) for ports, of_leads in sessions if ports and ports.reports_in_vain
        ]
        return [Check("dead letters", False, f"{text}, which it was granted to report", fix) for text, fix in found]

    def _store_problems(self) -> list[Check]:
        problems = []
        mark, now = self._gateway.mark, self._performer.clock.now()
        if mark.is_ahead(now):
            detail = (
                f"the clock is {(mark.highest - now.wall) // 1000} s behind what it was: nothing is put into agents"
            )
            problems.append(Check("clock", False, detail, "set it right; if it is right: fleettrio doctor --fix clock"))
        if self._gateway.store_fault.trouble:
            problems.append(Check("store", False, self._gateway.store_fault.trouble, "free some disk space"))
        free = shutil.disk_usage(self._config.paths.state_dir).free
        if free < DISK_LOW:
            detail = f"{free // (1024 * 1024)} MiB are free where messages are kept"
            problems.append(Check("disk", False, detail, "free some disk space"))
        return problems

    def _peers(self) -> list[Peer]:
        """The hosts that may trouble us: not those that our own fleet file revokes."""
        fleet = self._gateway.trust.fleet
        return [peer for peer in self._gateway.roster.peers.values() if not is_revoked(fleet, peer.host)]

    def _peer_problems(self) -> list[Check]:
        problems = []
        for peer in self._peers():
            host = peer.host
            if peer.we_refuse:
                fix = f"get a fleet file that names {host}: fleettrio host import FILE"
                problems.append(Check(f"trust {host}", False, f"we refuse {host}: {peer.we_refuse}", fix))
            if peer.refuses_us and peer.refuses_us != "revoked":
                fix = f"on {host}: fleettrio host import FILE (made here with fleettrio host export)"
                problems.append(Check(f"trust {host}", False, f"{host} refuses us: {peer.refuses_us}", fix))
            if abs(peer.offset_ms) > CLOCK_WARN_MS:
                ahead = "ahead of" if peer.offset_ms > 0 else "behind"
                detail = f"the clock of {host} is {abs(peer.offset_ms) / 1000:.0f} s {ahead} ours"
                problems.append(Check(f"clock {host}", False, detail, "set both clocks: timedatectl set-ntp true"))
        return problems

    def _held_problems(self) -> list[Check]:
        """What a person holds, and what waits for a person's word."""
        gateway, now = self._gateway, self._performer.clock.now().wall
        problems = []
        for pause in gateway.pauses:
            what, target = paused_words(pause.target, gateway)
            detail = f"{what} is paused by {pause.by} ({ago(pause.at, now)})"
            problems.append(Check("paused", False, detail, f"fleettrio resume {target}"))
        flows: dict[str, list[InboxRow]] = {}
        for row in gateway.ledger.waiting():
            if row.held == LOOP:
                flows.setdefault(row.trace_id, []).append(row)
        for trace_id, rows in flows.items():
            row = rows[0]
            address = gateway.roster.address
            who = f"{address(row.sender, row.from_host)} and {address(row.gid, HostId(''))}"
            held = "1 message is held" if len(rows) == 1 else f"{len(rows)} messages are held"
            fix = f"fleettrio trace {trace_id[-8:]}; to let it go on: fleettrio resume {trace_id[-8:]}"
            problems.append(Check("loop", False, f"{who} go round in circles ({row.detail}): {held}", fix))
        return problems

    def _agent_problems(self) -> list[Check]:
        problems = []
        for gid, trouble in self._gateway.inbox_state.items():
            entity = self._gateway.roster.entities.get(gid)
            if entity is not None and trouble != "open":
                fix = "find the other gateway that uses this host's name, and end it"
                problems.append(Check(f"inbox {entity.name}", False, f"its broker queue is {trouble}", fix))
        now = self._performer.clock.now().wall
        for entity in self._gateway.roster.entities.values():
            problems += self._lane_problems(entity, now)
        if self._gateway.refusals.by_reason["conflict"]:
            problems.append(Check("conflict", False, "a message came with a known id and other bytes", "read the log"))
        return problems

    def _lane_problems(self, entity: Entity, now: WallMs) -> list[Check]:
        """What waits for one agent and will not go by itself."""
        name, ledger = entity.name, self._gateway.ledger
        lane, is_full = ledger.lane(entity.gid), ledger.is_full(entity.gid)
        head, count = next(lane.in_order(), None), lane.count
        if head is None:
            return []
        waits = ("1 message waits" if count == 1 else f"{count} messages wait") + (", its inbox is full" * is_full)
        if entity.status == "away":
            fix = f"start it and `fleettrio attach --name {name} …`"
            return [Check(f"agent {name}", False, f"{name} is away, {waits}", fix)]
        why, since = self._gateway.inbox.forward.why_waiting(entity.gid)
        since = max(since, head.arrived_at)
        if why and now - since > STUCK_MS and not self._is_all_closed():
            fix = f"look at its pane {entity.target}" if entity.transport == "tmux" else f"look at what {name} does"
            detail = f"{name} has taken nothing for {ago(since, now)} ({why}), {waits}"
            return [Check(f"agent {name}", False, detail, fix)]
        if is_full:
            fix = f"no more is taken until {name} takes some: fleettrio inbox --take"
            if entity.takes == "push":
                fix = f"no more is taken until {name} takes some: let it finish its work"
            return [Check(f"agent {name}", False, f"the inbox of {name} is full, {count} messages wait", fix)]
        return []

    def _is_all_closed(self) -> bool:
        """Nothing is put into any agent now, which is a problem of its own."""
        return bool(self._gateway.inbox.forward.closed) or self._gateway.mark.is_ahead(self._performer.clock.now())
