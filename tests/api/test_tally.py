"""A broadcast in one line: the members that were known, by what became of them; the others beside them."""

from __future__ import annotations

import msgspec

from fleettrio.api.tally import in_order, tally
from fleettrio.core.rows import SentRow, SentState
from fleettrio.ids import Gid, HostId, Leaf, MsgId, TraceId, WallMs

HEAD = SentRow(
    msg_id=MsgId("m"),
    gid=Gid("gateway"),
    to_host=HostId(""),
    sender=Gid("lead"),
    kind="BROADCAST",
    leaf=Leaf(b""),
    header=b"",
    trace_id=TraceId("t"),
    ts=WallMs(0),
    expires_at=WallMs(1),
    state=SentState.DONE,
    to="broadcast.all",
)


def members(*states: str, late: bool = False, answered: bool = False) -> list[SentRow]:
    by = MsgId("r") if answered else None
    return [
        msgspec.structs.replace(
            HEAD, gid=Gid(f"{number}"), to_host=HostId("beta"), state=SentState(state), late=late, answered_by=by
        )
        for number, state in enumerate(states)
    ]


def test_the_good_ends_come_first_and_are_counted_against_all() -> None:
    assert tally(HEAD, members("expired", *["injected"] * 7)) == "7 of 8 injected, 1 expired"


def test_answers_count_before_everything_else() -> None:
    rows = [*members("injected", "injected", answered=True), *members("confirmed", "failed")]
    assert tally(HEAD, rows) == "2 of 4 answered, 1 waiting, 1 failed"


def test_who_was_not_known_is_counted_beside_the_others() -> None:
    rows = [*members("injected"), *members("injected", "injected", late=True)]
    assert tally(HEAD, rows) == "1 of 1 injected; others beside them: 2 injected"


def test_nobody_is_said() -> None:
    assert tally(HEAD, []) == "nobody is known here, as far as this host knows"
    ui = msgspec.structs.replace(HEAD, to="broadcast.ui")
    assert tally(ui, []) == "nobody is in group ui, as far as this host knows"


def test_what_did_not_leave_this_host_says_so() -> None:
    failed = msgspec.structs.replace(HEAD, state=SentState.FAILED, reason="broker-unreachable")
    said = tally(failed, members("injected", "failed"))
    assert said == "1 of 2 injected, 1 failed; it did not leave this host: broker-unreachable"


def test_the_head_stands_before_its_members_and_messages_keep_their_order() -> None:
    other = msgspec.structs.replace(HEAD, msg_id=MsgId("n"), to_host=HostId("beta"))
    one, two = members("injected", "expired")
    assert in_order([one, two, HEAD, other]) == [HEAD, one, two, other]
