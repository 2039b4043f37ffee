"""What the tools take. A field's description is what a model reads of it, so each word of it is paid for."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

__all__ = (
    "AnswerArgs",
    "AskArgs",
    "BroadcastArgs",
    "ClaimArgs",
    "ListArgs",
    "PollArgs",
    "ReplyArgs",
    "SendArgs",
    "SpawnArgs",
    "StopArgs",
    "TraceArgs",
)

WaitS = Annotated[float, Meta(ge=0, le=50)]
When = Annotated[Literal["idle", "turn", "now"], Meta(description="idle: when it rests; turn: at its turn's end; now")]
ExpiresS = Annotated[float, Meta(ge=0, description="seconds after which it is not worth delivering; 0: the default")]
Text = Annotated[str, Meta(description="the exact body")]


class _Args(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of a tool."""


class SendArgs(_Args, kw_only=True):
    to: Annotated[str | list[str], Meta(description="name, name@host, role:x, or several")] = ""
    text: Text
    wait: Annotated[Literal["no", "answer", "delivered"], Meta(description="stay for it, up to wait_s")] = "no"
    wait_s: WaitS = 50
    when: When = "idle"
    expires_s: ExpiresS = 0
    wants_reply: bool = True
    claim: Annotated[str, Meta(description="key: only the recipient that gets this claim gets the message")] = ""
    paths: Annotated[list[str], Meta(description="files it is about; the recipient hears what moved")] = []
    supersedes: Annotated[str, Meta(description="id of an earlier message that this one replaces")] = ""
    remind_s: Annotated[float, Meta(ge=0, description="tell me when nobody answered by then")] = 0
    coord: Annotated[str, Meta(description="instead of `to`: coordId of another fleet's lead")] = ""


class PollArgs(_Args):
    sender: Annotated[str, Meta(description="only this one's")] = field(default="", name="from")
    re: Annotated[list[str], Meta(description="ids of your own messages: wait for the answers to these")] = []
    wait_s: WaitS = 50
    limit: Annotated[int, Meta(ge=1, le=200)] = 20
    cursor: Annotated[
        int, Meta(ge=0, description="of the last result you have; needless, unless you lost a later one")
    ] = 0


class ReplyArgs(_Args):
    id: Annotated[str, Meta(description="of the message you answer, or @last")]
    text: Text


class AskArgs(_Args):
    to: str
    text: Text
    wait_s: WaitS = 50
    timeout_s: Annotated[float, Meta(gt=0, le=3600, description="how long the question stays open in all")] = 600


class AnswerArgs(_Args):
    id: Annotated[str, Meta(description="of the question")]
    text: Text


class ListArgs(_Args):
    pass


class TraceArgs(_Args):
    id: Annotated[str, Meta(description="of a message or trace, or @last")]


class SpawnArgs(_Args):
    profile: str
    host: Annotated[str, Meta(description="empty: this one")] = ""
    name: str = ""
    cwd: Annotated[str, Meta(description="absolute path there")] = ""
    worktree: Annotated[bool, Meta(description="give it a git worktree and branch of its own")] = False
    groups: list[str] = []
    brief: Annotated[str, Meta(description="its first message")] = ""
    wait_s: WaitS = 50


class StopArgs(_Args):
    target: Annotated[str, Meta(description="name, name@host, or the spawn's id")]
    reason: str = ""
    wait_s: WaitS = 50


class BroadcastArgs(_Args):
    text: Text
    group: Annotated[str, Meta(description="a group's name, or all")] = "all"
    when: When = "idle"
    expires_s: ExpiresS = 0
    wants_reply: bool = False


class ClaimArgs(_Args):
    key: Annotated[str, Meta(description="what you work on, as issue-149 or host:issue-149")]
    release: Annotated[bool, Meta(description="give it back")] = False
    lapsed: Annotated[bool, Meta(description="take it from a holder not seen for 10 minutes")] = False
