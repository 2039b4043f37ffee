"""What several hosts tell of one flow, in one order: by cause where it is known, else by their clocks set right.

Rules:
1. What one host tells stays in its own order.
2. Nothing happens to a message elsewhere before its sender's host had it; no answer is before what it answers.
3. Beyond that the corrected clock decides, which is as good as what we know of that host's clock.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from fleettrio.api.schema import JournalLine, MessageView

__all__ = ("ordered_lines", "ordered_messages", "set_right")

K = TypeVar("K", bound=Hashable)


def set_right(view: MessageView, offsets: Mapping[str, int]) -> MessageView:
    """The view with its times by this host's clock; `offsets`: ms by which each host's clock is ahead of it."""
    by_sender, by_teller = offsets.get(_host(view.sender), 0), offsets.get(view.host, 0)
    return msgspec.structs.replace(
        view, ts=view.ts - by_sender, expires_at=view.expires_at - by_sender, at=view.at - by_teller
    )


def ordered_messages(views: Sequence[MessageView]) -> list[MessageView]:
    """Each message after what it answers; of one message the sender's view first."""
    at = {view.msg_id: view.ts for view in views}
    causes = [(view.re, view.msg_id) for view in views if view.re in at and view.re != view.msg_id]
    place = {msg_id: number for number, msg_id in enumerate(_ordered(at, causes))}
    return sorted(views, key=lambda v: (place[v.msg_id], v.direction != "out", not v.is_head))


def ordered_lines(lines: Sequence[JournalLine], views: Iterable[MessageView]) -> list[JournalLine]:
    """The lines of all hosts; those of each host are given in its order."""
    home = {view.msg_id: _host(view.sender) for view in views}
    causes, last, first = list[tuple[int, int]](), dict[str, int](), dict[tuple[str, str], int]()
    for number, line in enumerate(lines):
        if line.host in last:
            causes.append((last[line.host], number))
        last[line.host] = number
        if line.msg_id:
            first.setdefault((line.msg_id, line.host), number)
    for (msg_id, host), number in first.items():
        sent = first.get((msg_id, home.get(msg_id, "")))
        if sent is not None and home[msg_id] != host:
            causes.append((sent, number))
    return [lines[number] for number in _ordered({n: line.at for n, line in enumerate(lines)}, causes)]


def _ordered(at: Mapping[K, int], causes: Iterable[tuple[K, K]]) -> list[K]:
    """The keys, earliest first, none before one of its causes. Causes that go round in a circle are not believed."""
    after: dict[K, list[K]] = {}
    open_causes = dict.fromkeys(at, 0)
    for cause, effect in causes:
        after.setdefault(cause, []).append(effect)
        open_causes[effect] += 1
    given = {key: number for number, key in enumerate(at)}
    ready = [(at[key], given[key], key) for key, number in open_causes.items() if not number]
    heapq.heapify(ready)
    done: dict[K, None] = {}
    while len(done) < len(at):
        if not ready:
            rest = min((key for key in at if key not in done), key=lambda key: (at[key], given[key]))
            heapq.heappush(ready, (at[rest], given[rest], rest))
        _, _, key = heapq.heappop(ready)
        if key in done:
            continue
        done[key] = None
        for effect in after.get(key, ()):
            open_causes[effect] -= 1
            if not open_causes[effect] and effect not in done:
                heapq.heappush(ready, (at[effect], given[effect], effect))
    return list(done)


def _host(address: str) -> str:
    return address.rpartition("@")[2]
