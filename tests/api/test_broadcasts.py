"""A broadcast as its sender sees it: counted, listed, sent again, taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleettrio.api import schema
from fleettrio.api.messages import Messages
from fleettrio.broker.memory import MemoryBroker
from fleettrio.calls import CallFailed
from tests.api.test_messages import HERE, who
from tests.core.builders import agent
from tests.tasks.shell import running

AGENTS = [agent("worker", "alpha", takes="pull", transport="pull", groups=("all",))]


async def test_what_did_not_leave_this_host_is_sent_again_with_the_same_bytes_and_only_those(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages = Messages(shell.performer)
        sent = await messages.sending.broadcast(schema.Broadcast(body=b"hear"), who(shell, "human"), HERE)
        head, *members = sent.messages
        assert (head.is_head, head.state, head.exit_code, head.recipient) == (True, "failed", 8, "everybody")
        assert "did not leave this host" in head.sentence
        assert {member.recipient for member in members} == {"worker@alpha"}
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=True) as shell:
        messages, person = Messages(shell.performer), who(shell, "human")
        with pytest.raises(Exception, match="not the body"):
            await messages.sending.retry(schema.Retry(head.short, b"other"), person, HERE)
        again = await messages.sending.retry(schema.Retry(head.short, b"hear"), person, HERE)
        assert (again.messages[0].state, again.messages[0].exit_code) == ("done", 0)
        with pytest.raises(CallFailed) as refused:
            await messages.sending.retry(schema.Retry(head.short, b"hear"), person, HERE)
        assert refused.value.reason == "not-retryable"


async def test_a_broadcast_is_taken_back_from_everybody_who_has_not_got_it(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages, person = Messages(shell.performer), who(shell, "human")
        sent = await messages.sending.broadcast(schema.Broadcast(body=b"hear"), person, HERE)
        shown = await messages.cancel(schema.Cancel(sent.messages[0].short), person, HERE)
        head, *members = shown.messages
        assert [member.state for member in members] == ["recalled"]
        assert head.sentence.startswith("1 of 1 recalled")
        listed = await messages.inbox(schema.Inbox(sent=True), person, HERE)
        assert [view.is_head for view in listed.messages] == [True, False]
