"""`docs/states.md` says what the core does: every cell of every table is driven with a real core. So do the kinds."""

from __future__ import annotations

import pytest

from fleettrio.core.rows import InboxState, SentState
from fleettrio.core.said import FINAL_WORDS, PEER_STEPS, WORDS
from fleettrio.core.spawned import SpawnState
from tests.core.tables import kinds
from tests.core.tables.page import TABLES, cells, kinds_on_page
from tests.core.tables.walk import walk

ROWS = [(name, event) for name, table in TABLES.items() for event in table.events]


@pytest.mark.parametrize(("name", "event"), ROWS, ids=[f"{name}: {event}" for name, event in ROWS])
def test_the_page_says_what_the_core_makes_of(name: str, event: str) -> None:
    page, table = cells(name), TABLES[name]
    assert {state: page.get((event, state)) for state in table.states} == {
        state: walk(table, event, state) for state in table.states
    }, "`make docs` draws the page anew; say in the change why it differs"


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_no_cell_that_the_core_does_not_know(name: str) -> None:
    table = TABLES[name]
    assert set(cells(name)) == {(event, state) for event in table.events for state in table.states}


def _words(*names: str) -> set[str]:
    columns = {word for name in names for state in TABLES[name].states for word in state.replace(",", " ").split()}
    return columns | {
        word for name in names for cell in cells(name).values() for word in cell.replace("(", " ").split()
    }


def test_no_state_of_a_recipients_row_is_left_out() -> None:
    assert {str(state) for state in InboxState} <= _words("recipient-push", "recipient-pull", "request", "spawn")


def test_no_state_of_a_senders_row_is_left_out() -> None:
    of_requests = {SentState.READY, SentState.DONE}
    assert {str(state) for state in set(SentState) - of_requests} <= _words("sender")


def test_no_state_of_a_started_agent_is_left_out() -> None:
    assert {str(state) for state in SpawnState} <= _words("spawn")


@pytest.mark.parametrize("first", sorted(WORDS - {SentState.READY, SentState.DONE}))
def test_the_steps_between_words_of_a_recipient_are_those_of_the_core(first: SentState) -> None:
    column = next(state for state in TABLES["sender"].states if first in state.split())
    page = cells("sender")
    allowed = PEER_STEPS.get(first, frozenset())
    for word in FINAL_WORDS - {first, SentState.READY, SentState.DONE}:
        assert (page[f"word: {word}", column] == word) is (word in allowed), word


def test_the_page_has_the_kinds_as_they_are() -> None:
    assert kinds_on_page() == kinds.draw(), "`make docs` draws it anew"
