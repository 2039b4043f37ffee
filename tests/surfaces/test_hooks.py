"""Agents with hooks: last words, moments of delivery, waking, and everything that may go wrong with a hook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleettrio.api.schema import Hook
from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until
from tests.surfaces.harnessed import Harnessed, final, send, state


@pytest.fixture(scope="module")
def host(room: TmuxRoom) -> Iterator[Host]:
    with Fleet(None, "alpha", env=room.env) as fleet:
        yield fleet["alpha"]


@pytest.fixture(scope="module")
def lead(host: Host) -> str:
    """A token of a pull client, who sends the briefs."""
    token: str = host.ok("attach", "--name", "lead", "--json").json()["token"]
    return token


def replies(host: Host, lead: str, short: str) -> list[dict[str, Any]]:
    """What came back to the lead for the message `short`."""
    found = host.ok("inbox", "--json", token=lead).json()["messages"]
    return [message for message in found if str(message.get("re", "")).endswith(short)]


# --- at a prompt


def test_a_prompt_takes_what_waits_and_the_transcript_confirms_it(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = Harnessed.start(room, host, "prompted", "--draft", "half a thought", "--hold", waits=False)
    short = send(host, "prompted", "please look at it", token=lead)
    wait_until("the draft holds it back", lambda: "draft" in host.ok("show", short).text)

    agent.key("Enter")
    (seen,) = agent.wait_saw("please look at it")
    agent.wait_turns(1)
    assert seen["name"] == "UserPromptSubmit"
    assert agent.turns() == ["half a thought"]
    final(host, short, "injected")


def test_what_goes_with_a_prompt_that_another_hook_stops_is_never_called_delivered(
    host: Host, room: TmuxRoom, lead: str
) -> None:
    stops = json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "exit 2"}]}]}})
    agent = Harnessed.start(room, host, "stopped", "--draft", "x", "--settings", stops, waits=False)
    short = send(host, "stopped", "it got lost", token=lead)
    wait_until("the draft holds it back", lambda: "draft" in host.ok("show", short).text)

    agent.key("Enter")
    wait_until("the prompt was stopped", lambda: agent.events("refused"))

    final(host, short, "unconfirmed")
    agent.type("another")
    wait_until("that one, too", lambda: len(agent.events("refused")) == 2)
    assert agent.saw("it got lost") == []
    assert state(host, short) == "unconfirmed"


def test_what_a_hook_printed_in_vain_is_unconfirmed_and_not_handed_out_again(
    host: Host, room: TmuxRoom, lead: str
) -> None:
    agent = Harnessed.start(room, host, "lossy", "--draft", "x", "--lose", "UserPromptSubmit", waits=False)
    short = send(host, "lossy", "killed after printing", token=lead)
    wait_until("the draft holds it back", lambda: "draft" in host.ok("show", short).text)

    agent.key("Enter")
    agent.wait_turns(1)

    final(host, short, "unconfirmed")
    agent.type("next")
    agent.wait_turns(2)
    assert agent.saw("killed after printing") == []


def test_a_queued_prompt_takes_nothing_because_the_person_may_take_it_back(
    host: Host, room: TmuxRoom, lead: str
) -> None:
    agent = Harnessed.start(room, host, "queuer", "--hold", waits=False)
    agent.type("begin")
    agent.wait_turns(1)
    short = send(host, "queuer", "for later", token=lead)
    agent.type("queued")
    wait_until("it is queued", lambda: agent.events("queued"))
    assert agent.hooks("UserPromptSubmit")[1]["out"] == ""
    agent.key("Up")
    wait_until("it was taken back", lambda: agent.events("taken-back"))
    assert state(host, short) == "waiting"


def test_a_body_that_is_too_long_for_a_hook_is_cut_and_says_how_to_read_the_rest(
    host: Host, room: TmuxRoom, lead: str
) -> None:
    agent = Harnessed.start(room, host, "reader", "--draft", "x", "--hold", waits=False)
    body = ("one of many lines\n" * 12_000).encode()
    done = host.cli("send", "reader", "-", "--json", token=lead, given=body)
    short = done.json()["messages"][0]["short"]
    wait_until("the draft holds it back", lambda: "draft" in host.ok("show", short).text)

    agent.key("Enter")
    (seen,) = agent.wait_saw("one of many lines")
    agent.wait_turns(1)
    assert len(seen["text"]) <= 9_000
    assert f"fleettrio show {short} --framed" in seen["text"]
    final(host, short, "injected")
    assert host.ok("show", short, "--body").out == body


def test_a_hook_that_runs_twice_hands_out_once_and_tells_once(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = Harnessed.start(room, host, "twice", "--hook-times", "2", "--say", "done twice")
    short = send(host, "twice", "do it once", token=lead)
    wait_until("it answered", lambda: replies(host, lead, short))

    assert len(agent.saw("do it once")) == 1
    assert len(replies(host, lead, short)) == 1


def test_fields_of_a_newer_harness_change_nothing(host: Host, room: TmuxRoom, lead: str) -> None:
    more = {"prompt_kind": {"a": [1]}, "transcript_path": 7, "effort": None}
    agent = Harnessed.start(room, host, "newer", "--more", json.dumps(more), "--say", "all well")
    short = send(host, "newer", "go on", token=lead)
    assert len(wait_until("it answered", lambda: replies(host, lead, short))) == 1
    assert len(agent.saw("go on")) == 1


# --- last words


def test_an_agent_that_never_calls_a_tool_answers_with_its_last_words_marked_as_such(
    host: Host, room: TmuxRoom, lead: str
) -> None:
    Harnessed.start(room, host, "silent", "--say", "I looked: all is well.")
    short = send(host, "silent", "look at it", token=lead)

    (reply,) = wait_until("the lead has an answer", lambda: replies(host, lead, short))

    assert "I looked: all is well." in host.ok("show", str(reply["short"]), "--body", token=lead).text
    wait_until("its brief is answered", lambda: "answered (auto)" in host.ok("show", short).text)


def test_last_words_cross_to_the_lead_on_the_other_host(fleet: Fleet, room: TmuxRoom) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    token = alpha.ok("attach", "--name", "lead", "--json").json()["token"]
    Harnessed.start(room, beta, "far", "--say", "seen from afar")
    wait_until("alpha knows it", lambda: alpha.agent("far@beta"))

    short = send(alpha, "far@beta", "look at it", token=token)

    (reply,) = wait_until("the lead has an answer", lambda: replies(alpha, token, short))
    assert "seen from afar" in alpha.ok("show", str(reply["short"]), "--body", token=token).text
    wait_until("its brief is answered", lambda: "answered (auto)" in alpha.ok("show", short).text)


def test_an_interrupted_turn_has_no_last_words_and_only_its_session_file_tells(
    host: Host, room: TmuxRoom, lead: str
) -> None:
    agent = Harnessed.start(room, host, "interrupted", "--hold", "--say", "never said")
    short = send(host, "interrupted", "look at it", token=lead)
    agent.wait_turns(1)
    final(host, short, "injected")
    agent.wait_status("working")

    agent.key("Escape")
    agent.wait_status("idle")

    wait_until("its sender knows", lambda: "interrupted" in host.ok("show", short).text)
    assert replies(host, lead, short) == []


def test_a_turn_in_which_the_person_typed_has_no_last_words(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = Harnessed.start(room, host, "typed", "--draft", "mine", "--say", "said to the person", waits=False)
    short = send(host, "typed", "look at it", token=lead)
    wait_until("the draft holds it back", lambda: "draft" in host.ok("show", short).text)
    agent.key("Enter")
    wait_until("its turn is over", lambda: agent.events("stopped"))
    wait_until("its sender knows", lambda: "typed" in host.ok("show", short).text)
    assert replies(host, lead, short) == []


def test_an_agent_that_owes_an_answer_is_reminded_once_before_its_turn_may_end(
    host: Host, room: TmuxRoom, lead: str
) -> None:
    agent = Harnessed.start(room, host, "forgetful", reply="nag")
    short = send(host, "forgetful", "what do you think?", token=lead)
    wait_until("its turn is over", lambda: agent.events("stopped"))
    (reminder,) = agent.wait_contexts("Stop")
    assert short in reminder["text"]
    assert "what do you think?" not in reminder["text"]
    wait_until("its sender knows", lambda: "no answer" in host.ok("show", short).text)
    assert replies(host, lead, short) == []


def test_what_is_answered_by_itself_needs_no_reminder_and_no_last_words(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = Harnessed.start(room, host, "polite", "--hold", reply="nag")
    short = send(host, "polite", "what do you think?", token=lead)
    agent.wait_turns(1)
    final(host, short, "injected")
    token = host.ok("token", "create", "--name", "polite", "--json").json()["token"]
    host.ok("reply", short, "I think so", token=token)
    agent.finish()
    wait_until("its turn is over", lambda: agent.events("stopped"))
    assert agent.events("goes-on") == []
    assert len(wait_until("the lead has its answer", lambda: replies(host, lead, short))) == 1


# --- the three moments


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_turn_lands_at_the_boundary_idle_does_not_and_now_lands_at_once(
    host: Host, room: TmuxRoom, lead: str, kind: str
) -> None:
    name = f"moments-{kind}"
    agent = Harnessed.start(room, host, name, "--hold", kind=kind, waits=False)
    agent.type("begin")
    agent.wait_turns(1)
    agent.wait_status("working")
    later = send(host, name, "when idle", "--when", "idle", token=lead)
    boundary = send(host, name, "at the boundary", "--when", "turn", token=lead)
    agent.use_tool()
    wait_until("its hooks ran", lambda: agent.hooks("PostToolUse"))
    assert (state(host, boundary), state(host, later)) == ("waiting", "waiting")

    agent.finish()
    assert [one["name"] for one in agent.wait_saw("at the boundary")] == ["Stop"]
    assert len(agent.events("goes-on")) == 1
    assert agent.saw("when idle") == []

    agent.finish()
    agent.wait_turns(2)
    final(host, boundary, "injected")
    final(host, later, "injected")
    assert "when idle" in agent.turns()[1]
    assert agent.events("dropped") == []


def test_now_lands_in_the_middle_of_a_turn_by_the_hook_of_a_tool(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = Harnessed.start(room, host, "midway", "--hold", "--draft", "", waits=False)
    agent.type("begin")
    agent.wait_turns(1)
    agent.wait_status("working")
    agent.draft("a draft keeps the pane out of it")
    short = send(host, "midway", "stop that", "--when", "now", token=lead)
    agent.use_tool()
    assert [one["name"] for one in agent.wait_saw("stop that")] == ["PostToolUse"]
    agent.use_tool()
    final(host, short, "injected")


def test_a_stop_goes_on_for_new_messages_at_most_four_times(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = Harnessed.start(room, host, "stopper", "--hold", waits=False)
    agent.type("begin")
    agent.wait_turns(1)
    agent.wait_status("working")
    for number in range(1, 5):
        send(host, "stopper", f"boundary {number}", "--when", "turn", token=lead)
        agent.finish()
        agent.wait_saw(f"boundary {number}")
        assert len(agent.events("goes-on")) == number
    send(host, "stopper", "boundary 5", "--when", "turn", token=lead)
    agent.finish()
    agent.wait_turns(2)
    assert len(agent.events("goes-on")) == 4
    assert "boundary 5" in agent.turns()[1]


# --- blocked, gone, back


def test_a_permission_prompt_is_known_at_once_and_nothing_is_typed_into_it(
    host: Host, room: TmuxRoom, lead: str
) -> None:
    agent = Harnessed.start(room, host, "asking", "--hold")
    agent.type("begin")
    agent.wait_turns(1)
    agent.open_dialog()
    agent.wait_status("blocked")
    short = send(host, "asking", "not into the dialog", "--when", "now", token=lead)
    wait_until("it says why", lambda: "permission prompt" in host.ok("show", short).text)
    assert agent.events("allowed") == []
    agent.finish()
    agent.wait_status("working")
    agent.finish()
    final(host, short, "injected")
    assert len(agent.events("allowed")) == 1


def test_clear_gives_the_agent_a_new_session_and_it_keeps_its_name_and_mail(
    host: Host, room: TmuxRoom, lead: str
) -> None:
    agent = Harnessed.start(room, host, "cleared")
    agent.type("/clear")
    (digest,) = agent.wait_contexts("SessionStart")
    assert len(agent.hooks("SessionStart")) == 2, "a session began anew"
    assert "cleared@alpha" in digest["text"]
    short = send(host, "cleared", "still you?", token=lead)
    agent.wait_turns(1)
    assert "still you?" in agent.turns()[0]
    final(host, short, "injected")


# --- woken


def with_a_draft(room: TmuxRoom, host: Host, name: str) -> Harnessed:
    """Idle after a turn, so that a hook waits to wake it; its pane takes nothing."""
    agent = Harnessed.start(room, host, name)
    agent.type("begin")
    wait_until("its turn is over", lambda: agent.events("stopped"))
    agent.draft("half a thought")
    return agent


def test_an_idle_agent_is_woken_with_its_draft_untouched(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = with_a_draft(room, host, "sleeper")
    short = send(host, "sleeper", "wake up", token=lead)
    agent.wait_turns(2)
    assert "wake up" in agent.turns()[1]
    agent.shows("half a thought")
    final(host, short, "injected")
    assert "by a waiting hook" in host.ok("show", short).text
    assert "rewake" in host.ok("show", short, "--json").text


def test_a_dialog_is_not_touched_by_what_wakes_the_agent(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = with_a_draft(room, host, "dialog")
    agent.open_dialog()
    agent.wait_status("blocked")
    short = send(host, "dialog", "after the dialog", token=lead)
    wait_until("it says why", lambda: "permission prompt" in host.ok("show", short).text)
    assert len(agent.turns()) == 1
    agent.finish()
    agent.wait_turns(2)
    final(host, short, "injected")
    agent.shows("half a thought")


def test_a_call_that_waits_to_wake_an_agent_outlives_the_daemon(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = with_a_draft(room, host, "patient")
    host.stop()
    host.up()
    wait_until("its call is heard again", lambda: (it := host.agent("patient@alpha")) and it.path == "hook, tmux")
    short = send(host, "patient", "after the restart", token=lead)
    agent.wait_turns(2)
    agent.shows("half a thought")
    final(host, short, "injected")


def test_of_several_calls_that_wait_the_newest_wakes_it_once(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = with_a_draft(room, host, "often")
    first = send(host, "often", "first", token=lead)
    agent.wait_turns(2)
    final(host, first, "injected")
    second = send(host, "often", "second", token=lead)
    agent.wait_turns(3)
    final(host, second, "injected")
    assert [len(agent.saw(text)) for text in ("first", "second")] == [1, 1]


# --- without a daemon, and without sense


def test_without_a_daemon_every_hook_lets_the_agent_go_on(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = Harnessed.start(room, host, "alone", waits=False)
    host.stop()
    agent.type("go on without it")
    wait_until("its turn is over", lambda: agent.events("stopped"))
    host.up()
    assert {(one["code"], one["out"], one["err"]) for one in agent.hooks("Stop")} == {(0, "", "")}


def test_a_frozen_daemon_holds_no_prompt_up(host: Host, room: TmuxRoom, lead: str) -> None:
    agent = Harnessed.start(room, host, "impatient", waits=False)
    host.freeze()
    try:
        agent.type("go on without it")
        wait_until("its turn is over", lambda: agent.events("stopped"))
    finally:
        host.thaw()
    assert {(one["code"], one["out"], one["err"]) for one in agent.hooks("Stop")} == {(0, "", "")}


def test_a_session_that_nobody_attached_is_told_nothing(host: Host, room: TmuxRoom) -> None:
    agent = Harnessed.start(room, host, "nobody", attached=False)
    agent.type("hello")
    wait_until("its turn is over", lambda: agent.events("stopped"))
    assert {(one["code"], one["out"], one["err"]) for one in agent.events("hook")} == {(0, "", "")}


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"{",
        b"[1]",
        b"null",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"hook_event_name": 7, "session_id": [], "prompt": {}}',
        b'{"hook_event_name": "UserPromptSubmit", "prompt": "\\ud800 lone", "session_id": "\\udfff"}',
        b'{"hook_event_name": "Stop", "last_assistant_message": "\\ud83d"}',
        b'{"hook_event_name": "Newer", "prompt": "' + b"x" * 200_000 + b'"}',
    ],
)
@pytest.mark.parametrize("harness", ["claude", "codex", "opencode", "../../etc"])
def test_what_no_harness_says_is_answered_with_nothing(host: Host, lead: str, harness: str, given: bytes) -> None:
    with host.client(lead) as client:
        for method in ("hook", "hook.wait"):
            if method == "hook" or not given.startswith(b"{"):
                answer = client.call(method, Hook(harness, given))
                assert (answer.stdout, answer.stderr, answer.code) == (b"", b"", 0)
    assert "Traceback" not in host.log
