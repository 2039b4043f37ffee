"""What each harness tells by its hooks is read leniently, and what it is told has not a key that it does not take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleettrio.api.hooks.claude import Claude
from fleettrio.api.hooks.codex import Codex
from fleettrio.api.hooks.hooks import DIALECTS
from fleettrio.api.hooks.once import Once
from fleettrio.api.hooks.opencode import OpenCode
from fleettrio.api.hooks.told import Dialect, Told, Unreadable, What
from fleettrio.clients.harnesses import claude, codex
from fleettrio.ids import Gid

EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "PermissionRequest", "SessionEnd")
CONTEXT_EVENTS = EVENTS[:4]


def told(dialect: Dialect, event: str, **fields: Any) -> Told:
    name = "event" if dialect.name == "opencode" else "hook_event_name"
    return dialect.read(json.dumps({name: event, **fields}).encode())


@pytest.mark.parametrize("event", CONTEXT_EVENTS)
@pytest.mark.parametrize("dialect", [Claude(), Codex()], ids=lambda dialect: dialect.name)
def test_context_is_the_whole_output(dialect: Dialect, event: str) -> None:
    output = json.loads(dialect.context(told(dialect, event), "grüße\n│ x"))
    assert output == {"hookSpecificOutput": {"hookEventName": event, "additionalContext": "grüße\n│ x"}}


def test_claude_goes_on_for_context_alone_and_codex_for_a_reason() -> None:
    """A reason would show Claude's model the command line of the hook; Codex has no context at a turn's end."""
    goes_on = json.loads(Claude().context(told(Claude(), "Stop"), "more"))
    assert goes_on == {"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "more"}}
    assert json.loads(Codex().context(told(Codex(), "Stop"), "more")) == {"decision": "block", "reason": "more"}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_nothing_is_said_at_an_event_that_takes_nothing(dialect: Dialect) -> None:
    for event in ("PermissionRequest", "SessionEnd", "Notification", "Interrupt", "session.idle", "NewerEvent", ""):
        assert not dialect.takes_context(told(dialect, event))


def test_every_event_that_is_asked_for_is_understood() -> None:
    notices = {"Notification": {"notification_type": "permission_prompt"}}
    for event in claude.EVENTS:
        assert told(Claude(), event, **notices.get(event, {})).what is not What.OTHER
    for event in codex.EVENTS:
        assert told(Codex(), event).what is not What.OTHER


@pytest.mark.parametrize(
    ("kind", "what"),
    [("permission_prompt", What.ASKS), ("idle_prompt", What.AT_REST), ("auth_success", What.OTHER), ("", What.OTHER)],
)
def test_notifications_are_what_they_say(kind: str, what: What) -> None:
    assert told(Claude(), "Notification", notification_type=kind).what is what


def test_a_session_that_is_compacted_or_cleared_goes_on() -> None:
    assert told(Claude(), "SessionStart", source="compact").what is What.OTHER
    assert told(Claude(), "SessionEnd", reason="clear").is_clear
    assert not told(Claude(), "SessionEnd", reason="prompt_input_exit").is_clear


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_fields_of_another_type_are_as_if_they_were_not_there(dialect: Dialect) -> None:
    odd = {"session_id": 7, "session": [], "prompt": {"a": 1}, "last_assistant_message": 1, "agent_id": None}
    found = told(dialect, "UserPromptSubmit", **odd)
    assert (found.session, found.prompt, found.words, found.is_within) == ("", "", None, False)
    assert dialect.read(b'{"hook_event_name": []}').event == ""


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"7", b"[" * 100_000, b"\xff"])
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_what_is_no_object_is_unreadable(dialect: Dialect, data: bytes) -> None:
    with pytest.raises(Unreadable):
        dialect.read(data)


_NAMES = st.sampled_from(["hook_event_name", "event", "session_id", "prompt", "source", "agent_id", "reason", "words"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(EVENTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)  # a slow machine is no fault
@given(st.sampled_from(list(DIALECTS.values())), st.binary(max_size=200))
def test_any_bytes_are_read_or_unreadable(dialect: Dialect, data: bytes) -> None:
    try:
        dialect.read(data)
    except Unreadable:
        return


@settings(deadline=None)  # a slow machine is no fault
@given(st.sampled_from(list(DIALECTS.values())), st.dictionaries(_NAMES, _VALUES))
def test_any_object_is_read_and_whatever_takes_context_can_be_told_something(
    dialect: Dialect, values: dict[str, Any]
) -> None:
    found = dialect.read(json.dumps(values).encode())
    found.prompt.encode()
    if dialect.takes_context(found):
        assert json.loads(dialect.context(found, "x"))


def test_lone_surrogates_are_no_text_and_break_nothing() -> None:
    found = Claude().read(b'{"hook_event_name": "Stop", "last_assistant_message": "a \\ud83d b", "prompt": "\\udfff"}')
    assert (found.words, found.prompt) == ("a ? b", "?")


def test_a_helper_of_the_agent_is_not_the_agent() -> None:
    assert told(Claude(), "PostToolUse", agent_id="a1").is_within
    assert told(OpenCode(), "session.idle", parent="ses_1").is_within


def test_the_same_words_within_a_moment_are_one_event_and_later_another() -> None:
    once, one, other = Once(), Gid("beta.one"), Gid("beta.other")
    assert not once.is_repeat(one, b"{}", 10.0)
    assert once.is_repeat(one, b"{}", 10.2)
    assert not once.is_repeat(other, b"{}", 10.2)
    assert not once.is_repeat(one, b"{ }", 10.2)
    assert not once.is_repeat(one, b"{}", 11.5)
