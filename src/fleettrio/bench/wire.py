"""What messages look like on the wire: bytes, frames, signatures; and that a lone message does not wait for others."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator
from typing import Any

from fleettrio.api.schema import Send, SendMany
from fleettrio.bench.context import Context
from fleettrio.bench.hop import implementations
from fleettrio.bench.lone import measure_lone
from fleettrio.bench.pair import Pair
from fleettrio.bench.peers import PEERS, PeerMissing, Peers
from fleettrio.bench.programs import CountsDiffer
from fleettrio.bench.results import Row, at_least, row
from fleettrio.bench.samples import Samples
from fleettrio.bench.tap import FrameTap
from fleettrio.bench.traffic import Way
from fleettrio.testing.proxy import Proxy

__all__ = ("SIZES", "measure")

SIZES = (1, 2, 3, 255, 256)
"""Of batches: the smallest, the first uneven tree, the largest and the one beside it."""
_COUNT = 1024
_ALONE = 64
_TRIES = 20
_PEER_COUNT = 500


def measure(context: Context) -> Iterator[Row]:
    for implementation in implementations():
        tap = FrameTap()
        with Proxy(context.broker().port, tap) as proxy, Pair(context, implementation, port=proxy.port) as pair:
            about: dict[str, Any] = {"implementation": implementation, "lane": pair.lane, "fsync": "FULL"}
            yield from _sizes_of_hops(context, pair, Peers(context, proxy.port), tap, about)
            context.progress.step(f"{implementation}: batches of {', '.join(map(str, SIZES))}")
            yield _batches(pair, tap, about)
    yield from measure_lone(context)


# --- bytes and frames


def _sizes_of_hops(context: Context, pair: Pair, peers: Peers, tap: FrameTap, about: dict[str, Any]) -> Iterator[Row]:
    """Both hosts together, with the words that go back, and nothing of the beats: those go on all the time."""
    pair.hop(_ALONE)
    for name, count, way, window in (("", _COUNT, Way(1, 4, 64), 256), (".alone", _ALONE, Way(1, 1), 1)):
        title = "one at a time" if name else "256 in flight"
        context.progress.step(f"{pair.implementation}: bytes of {count} messages, {title}")
        tap.reset()
        pair.hop(count, way=way)
        ours = tap.size / count, tap.frames / count
        theirs = _of_pika(peers, tap, window)
        for place, (what, unit) in enumerate((("bytes", "B"), ("frames", "frames"))):
            yield row(
                f"wire.{what}{name}",
                f"{what} on the wire for a message of 1 KiB, {title}",
                unit,
                Samples((ours[place],)),
                Samples((theirs[place],)) if theirs else None,
                peer_name="pika" if theirs else "",
                **about,
            )


def _of_pika(peers: Peers, tap: FrameTap, window: int) -> tuple[float, float] | None:
    tap.reset()
    try:
        peers.hop(PEERS["pika"], _PEER_COUNT, window)
    except (CountsDiffer, PeerMissing):
        return None
    return tap.size / _PEER_COUNT, tap.frames / _PEER_COUNT


# --- signatures


def _batches(pair: Pair, tap: FrameTap, about: dict[str, Any]) -> Row:
    """Requests of so many messages; a batch counts when each of its proofs passed, all of one tree."""
    seen: set[int] = set()
    with pair.alpha.client() as client:
        for size in SIZES:
            for _ in range(_TRIES):
                tap.reset()
                send = Send(to=[pair.addresses[0]], body=os.urandom(64))
                client.call("send_many", SendMany([send] * size))
                seen |= _whole_batches(tap)
                if size in seen:
                    break
    title = f"batches of {', '.join(map(str, SIZES))} whose proofs were all seen on the wire"
    missing = [size for size in SIZES if size not in seen]
    notes = [f"not seen: {', '.join(map(str, missing))}"] if missing else []
    found = Samples((float(len(SIZES) - len(missing)),))
    return row("wire.batches", title, "sizes", found, goal=at_least(len(SIZES)), notes=notes, **about)


def _whole_batches(tap: FrameTap) -> set[int]:
    """Sizes of the batches of which every leaf passed."""
    leaves: dict[tuple[bytes, int], set[bytes]] = collections.defaultdict(set)
    for message in tap.published:
        leaves[message.root, message.count].add(message.leaf)
    return {count for (_, count), found in leaves.items() if len(found) == count}
