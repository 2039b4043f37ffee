"""A span of time that cannot be meant is answered with what is wrong with it, what is taken, and an example."""

from __future__ import annotations

import math

import pytest

from fleettrio.api.mcp.call import Refusal
from fleettrio.api.mcp.hints import in_tools
from fleettrio.api.mcp.table import find_tool
from fleettrio.api.rpc import CallError
from fleettrio.api.spans import later_ms, lifetime_ms
from fleettrio.wire.kinds import Kind


@pytest.mark.parametrize(
    ("seconds", "wrong"),
    [
        (1e-9, "1e-09 s is too short"),
        (0.0, "0 s is too short"),
        (-5.0, "-5 s is too short"),
        (30 * 86_400.0, "30 d is too long"),
        (1e300, "1e+300 s is too long"),
        (math.inf, "inf s is too long"),
        (math.nan, "nan s is no time"),
    ],
)
def test_a_lifetime_that_cannot_be_is_told_with_what_can(seconds: float, wrong: str) -> None:
    with pytest.raises(CallError) as refused:
        lifetime_ms(seconds, Kind.SEND)
    assert str(refused.value) == f"{wrong} for a message with when=idle: from 1 ms to 14 d is taken"
    assert (refused.value.exit_code, refused.value.hint) == (2, "for example --expires 10m")
    assert in_tools(refused.value.hint) == "for example expires_s 600"


@pytest.mark.parametrize(
    ("kind", "when", "said"),
    [
        (Kind.SEND, "now", "a message with when=now: from 1 ms to 1 d is taken"),
        (Kind.BROADCAST, "idle", "a broadcast: from 1 ms to 1 d is taken"),
        (Kind.COORD, "idle", "coordination: from 1 ms to 14 d is taken"),
        (Kind.ASK, "idle", "a question: from 1 ms to 1 h is taken"),
    ],
)
def test_each_kind_of_message_has_its_own_most(kind: Kind, when: str, said: str) -> None:
    assert lifetime_ms(3_600, kind, when) == 3_600_000
    with pytest.raises(CallError, match="15 d is too long for") as refused:
        lifetime_ms(15 * 86_400, kind, when)
    assert str(refused.value).endswith(said)


def test_a_reminder_that_is_too_short_is_told_and_none_is_none() -> None:
    assert (later_ms(0.0, "--remind"), later_ms(0.5, "--remind")) == (0, 500)
    with pytest.raises(CallError, match="1e-09 s is too short for --remind: from 1 ms to 365 d") as refused:
        later_ms(1e-9, "--remind")
    assert in_tools(refused.value.hint) == "for example remind_s 1800"


@pytest.mark.parametrize(
    ("tool", "arguments", "hint"),
    [
        ("fleet_send", {"wait_s": -1}, "wait_s is a number of seconds from 0 to 50, for example 30"),
        ("fleet_send", {"wait_s": "nan"}, "wait_s is a number of seconds from 0 to 50, for example 30"),
        ("fleet_send", {"expires_s": "soon"}, "expires_s is a number of seconds from 0, for example 30"),
        ("fleet_ask", {"timeout_s": 1e300}, "timeout_s is a number of seconds above 0 to 3600, for example 30"),
        ("fleet_send", {"when": "soon"}, "when is one of idle, now, turn"),
        ("fleet_poll", {"limit": 0}, "it takes: from, re, wait_s, limit, cursor"),
    ],
)
def test_a_tool_says_which_seconds_and_words_it_takes(tool: str, arguments: dict[str, object], hint: str) -> None:
    with pytest.raises(Refusal) as refused:
        find_tool(tool, "").read({"to": "a", "text": "x", **arguments} if tool != "fleet_poll" else arguments)
    assert refused.value.hint == hint
    assert next(iter(arguments)) in str(refused.value)
