"""What this process has in hand, noted where its death leaves it; and how often processes on this store have died.

    (nothing) ──taken──► noted ──done──► (nothing)
                           └──the process dies──► found once ──again──► found twice: it is the suspect

Rules:
1. A delivery is noted before anything looks at it, by a digest of its header. It takes one write of a few bytes for a
   whole batch, and no fsync: what a process wrote is there when it dies, and a power cut is nobody's fault.
2. What was found once is taken alone from then on, so that the next death points at one. What was found twice is set
   aside; found once more, it is not even read to tell its sender.
3. Three deaths within a minute, none of which points at a suspect: the next process starts *safe*, until a person says
   that it need not. An end in order is no death.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import trio

from fleettrio.errors import ConfigError, FleetTrioError, StoreError
from fleettrio.ids import WallMs
from fleettrio.private_files import write_private

__all__ = ("HANDS", "Hand", "InHand", "hold_in_hand", "name_of")

HANDS = 4
"""One for messages and one for control, of the fleet and of the coordinator."""
MOST = 256
WITHIN_MS = 60_000
MOST_KNOWN = 256
"""Suspects remembered, the latest."""
_NAME_BYTES = 16
_HAND_BYTES = 2 + MOST * _NAME_BYTES
_RUNS, _ENDED = b"R", b"."


def name_of(header: bytes | None) -> bytes:
    """By what a delivery is noted: the header names its message, whatever may be in it."""
    return hashlib.blake2b(header or b"", digest_size=_NAME_BYTES).digest()


class _Deaths(msgspec.Struct):
    """What outlives a process: how often each delivery was in hand when one died; when they died of nothing known."""

    found: dict[str, int] = {}
    at: list[int] = []
    safe: str = ""


class Hand:
    """Where one consumer notes what it has."""

    def __init__(self, file: int, number: int) -> None:
        self._file = file
        self._offset = len(_RUNS) + number * _HAND_BYTES

    def take(self, names: Sequence[bytes]) -> None:
        """These are looked at from now on; at most `MOST`."""
        os.pwrite(self._file, len(names).to_bytes(2, "big") + b"".join(names), self._offset)

    def done(self) -> None:
        os.pwrite(self._file, b"\0\0", self._offset)


class InHand:
    """Made by `hold_in_hand`."""

    def __init__(self, file: int, path: Path, deaths: _Deaths) -> None:
        self._path = path
        self._deaths = deaths
        self.hands = tuple(Hand(file, number) for number in range(HANDS))

    @property
    def safe(self) -> str:
        """Why this process starts safe; empty when it does not."""
        return self._deaths.safe

    @property
    def has_suspects(self) -> bool:
        return bool(self._deaths.found)

    def times_found(self, name: bytes) -> int:
        """How often a process died with this one in hand."""
        return self._deaths.found.get(name.hex(), 0)

    def cleared(self, name: bytes) -> None:
        """It was taken alone, and nobody died."""
        if self._deaths.found.pop(name.hex(), 0):
            self._write()

    def leave_safe(self) -> None:
        """A person says that all is well again."""
        self._deaths.safe, self._deaths.at = "", []
        self._write()

    def died(self, names: Sequence[bytes], now: WallMs, limit: int) -> None:
        """The last process died with these in hand. `limit`: so many deaths within a minute make the next one safe."""
        deaths = self._deaths
        for name in dict.fromkeys(names):
            deaths.found[name.hex()] = deaths.found.pop(name.hex(), 0) + 1
        deaths.found = dict(list(deaths.found.items())[-MOST_KNOWN:])
        if any(self.times_found(name) > 1 for name in names):
            deaths.at = []
        else:
            deaths.at = [*(at for at in deaths.at if 0 <= now - at < WITHIN_MS), now]
        if limit and len(deaths.at) >= limit:
            deaths.safe = f"it ended {len(deaths.at)} times within a minute, and not in order"
        self._write()

    def _write(self) -> None:
        with contextlib.suppress(ConfigError, OSError):  # a full disk: the next death knows less
            write_private(self._path, msgspec.json.encode(self._deaths), replace=True)


@contextlib.contextmanager
def hold_in_hand(store: Path, now: WallMs, limit: int) -> Iterator[InHand]:
    """What the last process on this store left, and room for what this one has in hand; `limit` as for `died`.

    Only for whoever holds the store. Leaving it, but for a bug's exception, is an end in order. Raises `StoreError`.
    """
    notes, record = store.with_name(f"{store.name}.in-hand"), store.with_name(f"{store.name}.deaths")
    try:
        file = os.open(notes, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        hint = "check owner and mode of its folder"
        raise StoreError(f"{notes} cannot be opened: {error.strerror}", hint=hint) from error
    try:
        left = os.pread(file, len(_RUNS) + HANDS * _HAND_BYTES, 0)
        in_hand = InHand(file, record, _read(record))
        if left[:1] == _RUNS:
            in_hand.died(_names(left), now, limit)
        os.pwrite(file, _RUNS + bytes(HANDS * _HAND_BYTES), 0)
        try:
            yield in_hand
        except BaseException as error:
            if not _is_in_order(error):
                raise
            os.pwrite(file, _ENDED, 0)
            raise
        os.pwrite(file, _ENDED, 0)
    finally:
        os.close(file)


def _is_in_order(error: BaseException) -> bool:
    """What a daemon says and ends with, and what it is told to end with, is no death."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_in_order, error.exceptions))
    return isinstance(error, trio.Cancelled | FleetTrioError | KeyboardInterrupt)


def _read(path: Path) -> _Deaths:
    """What is damaged says nothing: it is a help, and never a reason not to start."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Deaths)
    except (OSError, msgspec.MsgspecError):
        return _Deaths()


def _names(left: bytes) -> list[bytes]:
    names = []
    for number in range(HANDS):
        begin = len(_RUNS) + number * _HAND_BYTES
        count = min(int.from_bytes(left[begin : begin + 2], "big"), MOST)
        rest = left[begin + 2 : begin + 2 + count * _NAME_BYTES]
        names += [rest[i : i + _NAME_BYTES] for i in range(0, len(rest), _NAME_BYTES)]
    return names
