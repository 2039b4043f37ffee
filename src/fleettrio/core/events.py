"""Everything that can happen to a gateway, in the past tense. Frozen, without behaviour.

Ids, salts and nonces are minted by the shell and come in here. An event that a peer can cause is legal in every state.
"""

from __future__ import annotations

from fleettrio.core.actions import StoreAction
from fleettrio.core.drift import Drift
from fleettrio.core.entity import Entity
from fleettrio.core.requests import CallId, Request
from fleettrio.core.rows import InboxRow, JournalRow, SentRow
from fleettrio.core.rules import Event
from fleettrio.core.topology import QueueOwner
from fleettrio.ids import Gid, MsgId, Seconds, Tag
from fleettrio.wire.fleet import Fleet
from fleettrio.wire.signing import Refusal, VerifiedEnvelope

__all__ = (
    "Adopted",
    "AgentEnded",
    "AgentFoundReady",
    "AgentNotReady",
    "AgentReserved",
    "AgentSeen",
    "Arrived",
    "Attached",
    "BeatDue",
    "ClockAccepted",
    "ControlLocked",
    "Detached",
    "DuplicateArrived",
    "Event",
    "FromCoordinator",
    "InboxBound",
    "InboxTrouble",
    "Injected",
    "Launched",
    "Leaving",
    "LinkBlocked",
    "LinkHeard",
    "LinkUnblocked",
    "LoadFailed",
    "Loaded",
    "PublishHanded",
    "PublishNotHanded",
    "RefusedArrival",
    "SessionClosed",
    "SessionOpened",
    "SessionSeen",
    "SpawnFailed",
    "SpawnReady",
    "StoodStill",
    "StoreFailed",
    "StoreRecovered",
    "TraceRead",
    "TreeLookedAt",
    "TreeMoved",
    "TrustChanged",
    "TurnEnded",
    "VerdictGiven",
)

# --- the broker ---------------------------------------------------------------------------------


class SessionOpened(Event, frozen=True):
    """Control and roster are consumed; inboxes follow one by one."""

    epoch: int


class SessionClosed(Event, frozen=True):
    epoch: int
    reason: str


class LinkBlocked(Event, frozen=True):
    reason: str


class LinkUnblocked(Event, frozen=True):
    pass


class LinkHeard(Event, frozen=True):
    """The last moment bytes came from the broker; given before time is judged."""

    at: Seconds


class InboxBound(Event, frozen=True):
    """The broker queue of an entity exists, is bound and consumed. It is not bound to the keys `unbound` any more."""

    gid: Gid
    unbound: tuple[str, ...] = ()


class InboxTrouble(Event, frozen=True):
    """The broker queue of an entity is locked by another gateway, or cannot be used as it is."""

    gid: Gid
    trouble: str
    detail: str = ""


class Arrived(Event, frozen=True):
    """A delivery passed every check of `wire.signing`; `known` is what the store has of `(msgId, gid)`."""

    tag: Tag
    owner: QueueOwner
    message: VerifiedEnvelope
    known: InboxRow | None = None


class DuplicateArrived(Event, frozen=True):
    """A known message with the same leaf came again; `request` names a request to this gateway itself."""

    tag: Tag
    request: tuple[MsgId, Gid] | None = None


class RefusedArrival(Event, frozen=True):
    tag: Tag
    owner: QueueOwner
    refusal: Refusal


class PublishHanded(Event, frozen=True):
    """The publish was written to the socket's buffer: from now on it may arrive."""

    ids: tuple[int, ...]


class PublishNotHanded(Event, frozen=True):
    """Not a byte of it went out."""

    id: int
    reason: str
    detail: str = ""


class VerdictGiven(Event, frozen=True):
    id: int
    verdict: str
    detail: str = ""


class FromCoordinator(Event, frozen=True):
    """This happened in the session at the coordinator's broker, not in the one at the fleet's."""

    event: Event


# --- trust and time -----------------------------------------------------------------------------


class TrustChanged(Event, frozen=True):
    fleet: Fleet


class ClockAccepted(Event, frozen=True):
    """A person says that the wall clock is right as it is, though it was ahead once."""


class StoodStill(Event, frozen=True):
    """This process did not run for `seconds`; for `slept` of them its machine slept, and its monotonic clock stood."""

    seconds: float
    slept: float


class BeatDue(Event, frozen=True):
    """It is time to say that this host is alive."""


class ControlLocked(Event, frozen=True):
    """Another connection consumes our control queue; our roster queue is consumed."""


class Leaving(Event, frozen=True):
    """The daemon was told to end: intake is over, the last words go out."""


# --- this host's agents -------------------------------------------------------------------------


class Attached(Request, frozen=True):
    """An agent was made known: new, or back under its name. `entity` is complete."""

    entity: Entity


class Detached(Request, frozen=True):
    gid: Gid
    forget: bool


class AgentSeen(Event, frozen=True):
    """An agent's state was reported or looked at.

    `looked`: it showed so itself, on its screen or by its harness; else it is only concluded from what was done.
    """

    gid: Gid
    status: str
    looked: bool = False


class SessionSeen(Event, frozen=True):
    """What an agent's harness calls its session, and where it can be asked. What is empty is not known now."""

    gid: Gid
    session: str = ""
    api: str = ""


class TurnEnded(Event, frozen=True):
    """A harness says that the turn of its agent is over.

    `words`: its last message, None when they are not known. `how`: `done`, `interrupt`, `error`, or `typed` (the person
    took part in it). `ids`: msgIds for answers that are made of the words.
    """

    gid: Gid
    words: bytes | None
    how: str
    ids: tuple[MsgId, ...] = ()


class AgentFoundReady(Event, frozen=True):
    """The agent would take a message at this very moment: what comes together with this needs no other look."""

    gid: Gid


class AgentReserved(Event, frozen=True):
    """The transport checked everything and would write now; `drift`: what had moved in the work tree by then."""

    gid: Gid
    msg_id: MsgId
    drift: Drift | None = None


class AgentNotReady(Event, frozen=True):
    gid: Gid
    msg_id: MsgId
    why: str
    status: str
    gone: bool = False


class TreeLookedAt(Event, frozen=True):
    """What had moved for each message of `actions.LookAtTree`; None: nothing, or it could not be found out."""

    gid: Gid
    found: tuple[tuple[tuple[MsgId, Gid], Drift | None], ...]


class TreeMoved(Event, frozen=True):
    """Where the work tree of an entity is now: id of the repository's first commit, and HEAD."""

    gid: Gid
    repo: str
    head: str


class Injected(Event, frozen=True):
    """What came of the write: `outcome` is a `local.port.DeliveryOutcome`."""

    gid: Gid
    msg_id: MsgId
    outcome: str
    via: str
    detail: str = ""


# --- agents that this host starts ---------------------------------------------------------------


class Launched(Event, frozen=True, kw_only=True):
    """It runs, ready or not: where it is, and what its processes are recognised by."""

    spawn_id: Gid
    target: str
    cwd: str
    tree: str = ""
    tty: str = ""
    pid: int = 0
    started: int = 0


class SpawnReady(Event, frozen=True):
    """It showed that it can take a message."""

    spawn_id: Gid


class SpawnFailed(Event, frozen=True):
    """It was not started, or did not get ready; nothing of it runs any more."""

    spawn_id: Gid
    reason: str
    detail: str = ""


class Adopted(Event, frozen=True):
    """An agent that an earlier process started was looked for: the very same one still runs, or it is gone."""

    spawn_id: Gid
    alive: bool


class AgentEnded(Event, frozen=True):
    """What was started under this id runs no more. `note`: what is to be said of its worktree."""

    spawn_id: Gid
    note: str = ""


# --- the store ----------------------------------------------------------------------------------


class Loaded(Event, frozen=True):
    """What the store knows of rows that the core does not hold open; answers `actions.Load`, in its order."""

    ask: int
    inbox: tuple[InboxRow | None, ...]
    sent: tuple[SentRow | None, ...]


class TraceRead(Event, frozen=True):
    """What the store has of a trace, oldest first; answers `actions.LoadTrace`. Nothing when it could not be read."""

    ask: int
    inbox: tuple[InboxRow, ...] = ()
    sent: tuple[SentRow, ...] = ()
    steps: tuple[JournalRow, ...] = ()


class LoadFailed(Event, frozen=True):
    """The rows of `actions.Load` could not be read: what was to go on with them does not."""

    ask: int
    reason: str


class StoreFailed(Event, frozen=True):
    """A list of actions could not be recorded, so nothing else of it was performed.

    `undone` has its store actions, last one first: whoever decided them goes back to what was `before`. `calls`: those
    that were to end with the list.
    """

    reason: str
    undone: tuple[StoreAction, ...] = ()
    calls: tuple[CallId, ...] = ()


class StoreRecovered(Event, frozen=True):
    pass
