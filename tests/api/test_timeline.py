"""Several hosts tell one flow, and their clocks do not agree."""

from __future__ import annotations

import random
from typing import Any

from fleettrio.api.schema import JournalLine, MessageView
from fleettrio.api.timeline import ordered_lines, ordered_messages, set_right
from tests.cli.canned import view

BRIEF, REPLY = "0190a000-0000-7000-8000-00000000000a", "0190a000-0000-7000-8000-00000000000b"


def line(host: str, what: str, msg_id: str, at: int) -> JournalLine:
    return JournalLine(at, what, msg_id, "", "", "", "", "", host)


def sent(msg_id: str, ts: int, sender: str, **more: Any) -> MessageView:
    return view(msg_id=msg_id, ts=ts, sender=sender, host=sender.partition("@")[2], **more)


def test_an_answer_stands_behind_what_it_answers_whatever_the_clocks_say() -> None:
    brief, reply = sent(BRIEF, 5_000, "lead@alpha"), sent(REPLY, 1_000, "worker@beta", re=BRIEF)
    assert ordered_messages([reply, brief]) == [brief, reply]


def test_nothing_happens_elsewhere_before_its_sender_had_it() -> None:
    lines = [
        line("alpha", "accepted", BRIEF, 9_000),
        line("alpha", "injected", BRIEF, 9_500),
        line("alpha", "waiting", REPLY, 9_700),
        line("beta", "waiting", BRIEF, 100),
        line("beta", "injected", BRIEF, 200),
        line("beta", "accepted", REPLY, 300),
    ]
    views = [sent(BRIEF, 9_000, "lead@alpha"), sent(REPLY, 300, "worker@beta", re=BRIEF)]
    told = [(step.host, step.what, step.msg_id) for step in ordered_lines(lines, views)]
    assert told.index(("alpha", "accepted", BRIEF)) < told.index(("beta", "waiting", BRIEF))
    assert told.index(("beta", "accepted", REPLY)) < told.index(("alpha", "waiting", REPLY))


def test_each_hosts_own_order_stays_and_every_line_is_there_once() -> None:
    rng = random.Random(7)
    lines = [line(f"h{n % 4}", str(n), rng.choice((BRIEF, REPLY, "")), rng.randrange(1_000)) for n in range(200)]
    ordered = ordered_lines(lines, [sent(BRIEF, 0, "a@h1"), sent(REPLY, 0, "b@h2", re=BRIEF)])
    assert sorted(map(id, ordered)) == sorted(map(id, lines))
    for host in ("h0", "h1", "h2", "h3"):
        assert [step for step in ordered if step.host == host] == [step for step in lines if step.host == host]


def test_messages_that_answer_each_other_in_a_circle_are_all_shown() -> None:
    one, other = sent(BRIEF, 1, "a@h1", re=REPLY), sent(REPLY, 2, "b@h2", re=BRIEF)
    assert [m.msg_id for m in ordered_messages([other, one])] == [BRIEF, REPLY]


def test_times_are_by_our_clock_as_far_as_theirs_is_known() -> None:
    told = view(ts=10_000, at=20_000, sender="a@beta", host="gamma", expires_at=30_000)
    right = set_right(told, {"beta": 1_000, "gamma": -500})
    assert (right.ts, right.at, right.expires_at) == (9_000, 20_500, 29_000)
