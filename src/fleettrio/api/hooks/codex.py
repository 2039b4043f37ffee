"""How Codex speaks with its hooks (seen with 0.171.0). One key that it does not know, and it drops the whole output."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from fleettrio.api.hooks.told import Fields, Told, What

__all__ = ("Codex",)

_WHAT = {
    "SessionStart": What.SESSION_BEGAN,
    "UserPromptSubmit": What.PROMPT,
    "PreToolUse": What.AT_WORK,
    "PostToolUse": What.AT_WORK,
    "PermissionRequest": What.ASKS,
    "Stop": What.TURN_OVER,
    "Interrupt": What.INTERRUPTED,
    "StopFailure": What.FAILED,
    "SessionEnd": What.SESSION_OVER,
}

Event = Literal["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"]
_TAKING: dict[str, Event] = {event: event for event in get_args(Event)}


class _Specific(msgspec.Struct, rename="camel", frozen=True):
    hook_event_name: Event
    additional_context: str


class _Output(msgspec.Struct, rename="camel", frozen=True):
    hook_specific_output: _Specific


class _GoOn(msgspec.Struct, frozen=True):
    """At a turn's end there is no context; the reason becomes the next thing the model is told."""

    reason: str
    decision: Literal["block"] = "block"


class Codex:
    name = "codex"
    queues = False
    begins_idle = False

    def read(self, data: bytes) -> Told:
        fields = Fields.parse(data)
        event = fields.text("hook_event_name")
        return Told(
            what=_WHAT.get(event, What.OTHER),
            event=event,
            session=fields.text("session_id"),
            turn=fields.text("turn_id"),
            prompt=fields.text("prompt"),
            words=fields.text_or_none("last_assistant_message"),
            transcript=fields.text("transcript_path"),
            is_within=bool(fields.text("agent_id")),
        )

    def takes_context(self, told: Told) -> bool:
        return told.event in _TAKING or told.event == "Stop"

    def context(self, told: Told, text: str) -> bytes:
        if told.event == "Stop":
            return msgspec.json.encode(_GoOn(text))
        return msgspec.json.encode(_Output(_Specific(_TAKING[told.event], text)))
