"""Gateways with one rule broken each: a simulation that does not find them proves nothing about the real one.

A mutant replaces one function in this process for as long as it lives. `make mutants` runs each until its first seed
that breaks a promise, and tells which; one that a thousand seeds do not find is a hole in the world or in the checker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fleettrio.core import actions as do
from fleettrio.core import coordination, words
from fleettrio.core.coordination import LeadNotices
from fleettrio.core.forward import ForwardLane
from fleettrio.core.handouts import Handouts
from fleettrio.core.hearing import Hearing
from fleettrio.core.ledger import Ledger
from fleettrio.core.notices import Notices
from fleettrio.core.offers import Offers
from fleettrio.core.outbox import Outbox
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxState, SentState
from fleettrio.core.topology import InboxQueue
from fleettrio.perform import Performer
from fleettrio.tasks.consume import Consumer
from fleettrio.wire.signing import Duplicate, Refusal, Verifier
from tests.sim.run import Run, run_seed

__all__ = ("MOST_SEEDS", "MUTANTS", "Mutant", "first_broken")

MOST_SEEDS = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class Mutant:
    """`replaced` is a list of (owner, attribute, what makes the broken one of the right one)."""

    name: str
    replaced: tuple[tuple[Any, str, Callable[[Any], Any]], ...]

    @contextlib.contextmanager
    def alive(self) -> Iterator[None]:
        """The rule is broken inside, and whole again behind it."""
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in self.replaced]
        for owner, name, broken in self.replaced:
            setattr(owner, name, broken(getattr(owner, name)))
        try:
            yield
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)


def first_broken(mutant: Mutant) -> Run | None:
    """The first run in which this mutant breaks a promise."""
    with mutant.alive():
        for seed in range(MOST_SEEDS):
            run = run_seed(seed)
            if run.broken:
                return run
    return None


# --- what each of them does ---------------------------------------------------------------------


def _ack_first(perform: Any) -> Any:
    async def broken(self: Performer, listed: list[do.Action], now: Any) -> None:
        for action in listed:
            if isinstance(action, do.Ack):
                self.hand_over(action)
        await perform(self, [action for action in listed if not isinstance(action, do.Ack)], now)

    return broken


def _unmarked(reserved: Any) -> Any:
    def broken(self: ForwardLane, *arguments: Any) -> list[do.Action]:
        actions = reserved(self, *arguments)
        if any(isinstance(action, do.Inject) for action in actions):
            return [action for action in actions if not isinstance(action, do.Record)]
        return list(actions)

    return broken


def _taken_unmarked(hand_out: Any) -> Any:
    def broken(self: Handouts, *arguments: Any) -> list[do.Action]:
        return [action for action in hand_out(self, *arguments) if not isinstance(action, do.Record)]

    return broken


def _nothing_known(_: Any) -> Any:
    async def broken(self: Consumer, parsed: list[Any]) -> list[None]:
        return [None] * len(parsed)

    return broken


def _known_by_id_alone(known: Any) -> Any:
    async def broken(self: Consumer, parsed: list[Any]) -> list[Any]:
        rows = await known(self, parsed)
        found = [await self._realm.store.find(item.envelope.msg_id) for _, _, item in parsed]
        return [row or next(iter(others), None) for row, (others, _) in zip(rows, found, strict=True)]

    return broken


def _only_open_rows(_: Any) -> Any:
    def broken(self: Ledger, key: Any) -> Any:
        return self.rows.get(key)

    return broken


def _nothing_to_tell(_: Any) -> Any:
    def broken(self: Notices, *arguments: Any) -> list[do.Action]:
        return []

    return broken


def _by_own_clock(bound_passed: Any) -> Any:
    def broken(self: Outbox, key: Any, now: Any) -> Any:
        row, actions = bound_passed(self, key, now)
        if row is None or row.state is not SentState.UNKNOWN:
            return row, actions
        return None, self._change(row, now, state=SentState.EXPIRED, said_by="own")

    return broken


def _drained_at_once(pull: Any) -> Any:
    def broken(self: Offers, call: Any, now: Any) -> list[do.Action]:
        return [*pull(self, call, now), *self.confirmed(call.session, self._cursor, now)]

    return broken


def _refused_replays(judge: Any) -> Any:
    def broken(self: Verifier, *arguments: Any) -> list[Any]:
        return [
            Refusal("replay", "seen", j.envelope, j.leaf, True, j.envelope.host) if isinstance(j, Duplicate) else j
            for j in judge(self, *arguments)
        ]

    return broken


def _failed_when_crashed(finish: Any) -> Any:
    def broken(self: Ledger, row: Any, now: Any, state: InboxState, **facts: Any) -> Any:
        return finish(self, row, now, InboxState.FAILED if facts.get("reason") == "crashed" else state, **facts)

    return broken


def _remembered_unverified(judge: Any) -> Any:
    def broken(self: Verifier, parsed: Any, owners: Any, known: Any, now_ms: Any) -> list[Any]:
        seen = self.__dict__.setdefault("seen", set())
        marks = [(item.leaf, owner) for item, owner in zip(parsed, owners, strict=True)]
        known = [mark[0] if mark in seen else leaf for mark, leaf in zip(marks, known, strict=True)]
        seen.update(marks)
        return list(judge(self, parsed, owners, known, now_ms))

    return broken


def _whatever_the_key_says(_: Any) -> Any:
    def broken(self: InboxQueue, to: str) -> bool:
        return True

    return broken


def _anybodys_word(_: Any) -> Any:
    def broken(word: Any, row: Any, *_: Any) -> str:
        return "peer" if row.leaf == word.leaf else ""

    return broken


def _any_number(_: Any) -> Any:
    def broken(self: Hearing, *arguments: Any) -> None:
        pass

    return broken


def _taken_whatever_epoch(beat: Any) -> Any:
    def broken(self: Roster, peer: Any) -> Any:
        known = self.peers.get(peer.host)
        if known and peer.epoch < known.epoch:
            del self.peers[peer.host]
        return beat(self, peer)

    return broken


MUTANTS = (
    Mutant("ack before commit", ((Performer, "_perform", _ack_first),)),
    Mutant("injecting after the first byte", ((ForwardLane, "reserved", _unmarked),)),
    Mutant("hand-out marked after its result", ((Handouts, "_hand_out", _taken_unmarked),)),
    Mutant("no ledger", ((Consumer, "_known", _nothing_known), (Ledger, "get", _only_open_rows))),
    Mutant("ledger by msgId alone", ((Consumer, "_known", _known_by_id_alone),)),
    Mutant("remembered before verification", ((Verifier, "judge", _remembered_unverified),)),
    Mutant("recipient judged by routing key", ((InboxQueue, "takes", _whatever_the_key_says),)),
    Mutant("notice from any host taken", ((words, "party", _anybodys_word),)),
    Mutant(
        "notice not repeated", ((Notices, "session_opened", _nothing_to_tell), (Notices, "retry", _nothing_to_tell))
    ),
    Mutant("word about coordination from any lead taken", ((coordination, "party", _anybodys_word),)),
    Mutant(
        "notice to a lead not repeated",
        ((LeadNotices, "session_opened", _nothing_to_tell), (LeadNotices, "retry", _nothing_to_tell)),
    ),
    Mutant("lower epoch taken", ((Hearing, "_check_number", _any_number), (Roster, "beat", _taken_whatever_epoch))),
    Mutant("expired by the sender's clock", ((Outbox, "bound_passed", _by_own_clock),)),
    Mutant("drain without confirmation", ((Offers, "pull", _drained_at_once),)),
    Mutant("replay refused instead of acked", ((Verifier, "judge", _refused_replays),)),
    Mutant("crash closed as failed", ((Ledger, "finish", _failed_when_crashed),)),
)


def _found(number: int) -> tuple[str, Run | None]:
    return MUTANTS[number].name, first_broken(MUTANTS[number])


def main(wanted: list[str]) -> int:
    """Run those whose name has one of these words, or all."""
    numbers = [n for n, mutant in enumerate(MUTANTS) if not wanted or any(word in mutant.name for word in wanted)]
    missed = 0
    with multiprocessing.Pool() as pool:
        for name, run in pool.imap_unordered(_found, numbers):
            if run is None:
                missed += 1
                print(f"NOT FOUND in {MOST_SEEDS} seeds: {name}", flush=True)
            else:
                print(f"{name}: seed {run.seed}, {run.broken[0]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
