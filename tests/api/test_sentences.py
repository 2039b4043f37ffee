"""Every state and every reason is a sentence a person can use, at either side."""

from __future__ import annotations

import re

import msgspec
import pytest

from fleettrio.api import reasons
from fleettrio.api.sentences import inbox_sentence, sent_sentence
from fleettrio.core.rows import InboxRow, InboxState, SentRow, SentState
from fleettrio.core.said import REFUSED
from fleettrio.ids import MsgId, WallMs, short_id
from tests.core.builders import Host, pair
from tests.core.test_core_pauses import press

TABLES = {
    "failed": reasons.FAILED,
    "unconfirmed": reasons.UNCONFIRMED,
    "unknown": reasons.UNKNOWN,
    "outcome-unknown": reasons.UNKNOWN,
}


def rows() -> tuple[Host, Host, SentRow, InboxRow]:
    world, alpha, beta = pair()
    msg_id: MsgId = alpha.send("worker@beta")
    world.settle()
    return alpha, beta, alpha.sent(msg_id), beta.row(msg_id, "worker")


def is_sentence(text: str) -> bool:
    return len(text) > 3 and not re.search(r"[{}]|None", text)


@pytest.mark.parametrize("state", SentState)
def test_every_state_of_a_sent_message_is_said(state: SentState) -> None:
    alpha, _, row, _ = rows()
    said = sent_sentence(msgspec.structs.replace(row, state=state), "worker@beta", alpha.gateway, alpha.clock.now.wall)
    assert is_sentence(said)


@pytest.mark.parametrize("state", InboxState)
def test_every_state_of_a_message_that_came_is_said(state: InboxState) -> None:
    _, beta, _, row = rows()
    said = inbox_sentence(msgspec.structs.replace(row, state=state), "worker@beta", beta.gateway, beta.clock.now.wall)
    assert is_sentence(said)


@pytest.mark.parametrize(("state", "reason"), [(s, r) for s, table in TABLES.items() for r in table])
def test_every_reason_at_the_sender_is_said_in_words(state: str, reason: str) -> None:
    alpha, _, row, _ = rows()
    row = msgspec.structs.replace(row, state=SentState(state), reason=reason, detail="more of it", said_by="peer")
    said = sent_sentence(row, "worker@beta", alpha.gateway, alpha.clock.now.wall)
    assert is_sentence(said)
    assert "more of it" in said
    assert said != f"{state}: {reason}"


@pytest.mark.parametrize("reason", reasons.REFUSALS)
def test_every_refusal_says_who_refused_and_why(reason: str) -> None:
    alpha, _, row, _ = rows()
    row = msgspec.structs.replace(row, state=SentState.FAILED, reason=f"{REFUSED}{reason} at beta", said_by="peer")
    said = sent_sentence(row, "worker@beta", alpha.gateway, alpha.clock.now.wall)
    assert said.startswith("beta refused it: ")
    assert is_sentence(said)


@pytest.mark.parametrize(
    ("kind", "detail", "grant"),
    [
        ("PAUSE", "alpha was not granted pause", "pause"),
        ("STOP", "", "stop"),
        ("SPAWN", "alpha was not granted spawn:coder", "spawn:coder"),
    ],
)
def test_a_missing_grant_is_named_with_the_command_that_adds_it(kind: str, detail: str, grant: str) -> None:
    alpha, _, row, _ = rows()
    refused = f"{REFUSED}not-authorised at beta"
    row = msgspec.structs.replace(row, kind=kind, state=SentState.FAILED, reason=refused, detail=detail, said_by="peer")
    said = sent_sentence(row, "worker@beta", alpha.gateway, alpha.clock.now.wall)
    assert said.startswith(f"beta refused it: alpha was not granted {grant}; on the owner's host: `fleettrio host add ")
    assert f"--grants {','.join(sorted({'ask', 'broadcast', 'reply', 'send', grant}))}`" in said


@pytest.mark.parametrize("held", reasons.HELD)
def test_what_is_held_says_why_and_what_lets_it_go_on(held: str) -> None:
    _, beta, _, row = rows()
    row = msgspec.structs.replace(row, held=held)
    said = inbox_sentence(row, "worker@beta", beta.gateway, beta.clock.now.wall)
    assert reasons.HELD[held].format(id=short_id(row.msg_id), host="beta") in said


def test_the_sender_is_told_of_a_loop_and_not_of_a_recipient_that_does_not_take_it() -> None:
    alpha, _, row, _ = rows()
    row = msgspec.structs.replace(row, state=SentState.HELD, reason="loop", detail="8 answers without a person")
    said = sent_sentence(row, "worker@beta", alpha.gateway, alpha.clock.now.wall)
    assert "has not taken it" not in said
    assert f"`fleettrio resume {short_id(row.msg_id)}` on beta" in said
    assert "8 answers without a person" in said


def test_a_moment_that_is_not_today_is_said_with_its_date() -> None:
    alpha, _, row, _ = rows()
    wall = WallMs(alpha.clock.now.wall + 600_000)  # beta is silent by now
    in_two_weeks = msgspec.structs.replace(row, expires_at=WallMs(wall + 14 * 24 * 3_600_000))
    said = sent_sentence(in_two_weeks, "worker@beta", alpha.gateway, wall)
    assert re.search(r"expires \d{4}-\d\d-\d\d \d\d:\d\d\)", said), said
    said = sent_sentence(msgspec.structs.replace(row, expires_at=wall), "worker@beta", alpha.gateway, wall)
    assert re.search(r"expires \d\d:\d\d:\d\d\)", said), said


@pytest.mark.parametrize(("target", "told"), [("all", "--all"), ("beta", "beta"), ("worker", "worker@beta")])
def test_what_is_paused_names_what_resume_is_to_be_given(target: str, told: str) -> None:
    _, beta, _, row = rows()
    press(beta, beta.gid("worker") if target == "worker" else target)
    said = inbox_sentence(row, "worker@beta", beta.gateway, beta.clock.now.wall)
    assert f"`fleettrio resume {told}`" in said


def test_a_reason_without_a_line_is_shown_as_it_is() -> None:
    alpha, _, row, _ = rows()
    row = msgspec.structs.replace(row, state=SentState.FAILED, reason="spawn: limit", detail="3 of 3", said_by="peer")
    said = sent_sentence(row, "worker@beta", alpha.gateway, alpha.clock.now.wall)
    assert said == "failed: spawn: limit: 3 of 3"
