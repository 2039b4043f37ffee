"""What a process had in hand when it died is known to the next one; an end in order is no death."""

from __future__ import annotations

import contextlib
from pathlib import Path

import trio

from fleettrio.errors import StoreError
from fleettrio.ids import WallMs
from fleettrio.store.inhand import InHand, hold_in_hand, name_of

POISON, OTHER = name_of(b"poison"), name_of(b"other")


class Died(Exception):
    """A bug's exception, as seen from the file: nothing more is written."""


def life(store: Path, *names: bytes, at: int = 0, limit: int = 3, ends: BaseException | None = None) -> InHand:
    """One process: it takes these and dies, or ends with `ends`."""
    try:
        with hold_in_hand(store, WallMs(at), limit) as in_hand:
            in_hand.hands[0].take(names)
            raise ends or Died
    except (Died, trio.Cancelled, StoreError):
        return in_hand


def look(store: Path, at: int = 0, limit: int = 3) -> InHand:
    """One process that ends in order."""
    with hold_in_hand(store, WallMs(at), limit) as in_hand:
        return in_hand


def test_what_was_in_hand_is_found_once_and_twice(tmp_path: Path) -> None:
    store = tmp_path / "db"
    life(store, POISON, OTHER)
    second = life(store, POISON)
    assert [second.times_found(name) for name in (POISON, OTHER)] == [1, 1]
    assert [look(store).times_found(name) for name in (POISON, OTHER)] == [2, 1]


def test_what_was_done_is_not_found(tmp_path: Path) -> None:
    store = tmp_path / "db"
    with contextlib.suppress(Died), hold_in_hand(store, WallMs(0), 3) as in_hand:
        in_hand.hands[1].take([OTHER])
        in_hand.hands[1].done()
        raise Died
    assert not look(store).has_suspects


def test_what_was_taken_alone_and_survived_is_cleared(tmp_path: Path) -> None:
    store = tmp_path / "db"
    life(store, POISON, OTHER)
    with hold_in_hand(store, WallMs(0), 3) as in_hand:
        in_hand.cleared(OTHER)
    assert [look(store).times_found(name) for name in (POISON, OTHER)] == [1, 0]


def test_an_end_in_order_is_no_death(tmp_path: Path) -> None:
    store = tmp_path / "db"
    for number in range(5):
        life(store, OTHER, at=number, ends=StoreError("no room"))
    assert not look(store).safe
    assert not look(store).has_suspects


def test_three_deaths_of_nothing_known_within_a_minute_are_safe_until_a_person_says_so(tmp_path: Path) -> None:
    store = tmp_path / "db"
    for number in range(3):
        assert not life(store, name_of(str(number).encode()), at=number * 10_000).safe
    assert "3 times within a minute" in look(store, 30_000).safe
    with hold_in_hand(store, WallMs(90_000), 3) as in_hand:
        assert in_hand.safe
        in_hand.leave_safe()
    assert not look(store, 100_000).safe


def test_deaths_that_point_at_one_message_are_not_safe(tmp_path: Path) -> None:
    store = tmp_path / "db"
    for number in range(3):
        life(store, POISON, at=number * 1_000)
    assert not look(store, 3_000).safe


def test_slow_deaths_and_a_limit_of_0_are_never_safe(tmp_path: Path) -> None:
    for number in range(5):
        life(tmp_path / "slow", at=number * 31_000)
        life(tmp_path / "never", at=number, limit=0)
    assert not look(tmp_path / "slow", 160_000).safe
    assert not look(tmp_path / "never", limit=0).safe


def test_damaged_notes_say_nothing(tmp_path: Path) -> None:
    store = tmp_path / "db"
    (tmp_path / "db.in-hand").write_bytes(b"R\xff\xff" + b"x" * 10)
    (tmp_path / "db.deaths").write_text("{nonsense")
    assert not look(store).safe


def test_a_suspect_is_remembered_among_the_latest_256(tmp_path: Path) -> None:
    store = tmp_path / "db"
    life(store, POISON)
    for number in range(6):
        life(store, *(name_of(f"{number} {i}".encode()) for i in range(64)))
    assert look(store).times_found(POISON) == 0
