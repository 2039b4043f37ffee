"""How Claude Code speaks with its hooks (seen with 2.1.332 and 2.1.197)."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from fleettrio.api.hooks.told import Fields, Told, What

__all__ = ("Claude",)

_WHAT = {
    "SessionStart": What.SESSION_BEGAN,
    "UserPromptSubmit": What.PROMPT,
    "PreToolUse": What.AT_WORK,
    "PostToolUse": What.AT_WORK,
    "PostToolUseFailure": What.AT_WORK,
    "PermissionRequest": What.ASKS,
    "Stop": What.TURN_OVER,
    "StopFailure": What.FAILED,
    "SessionEnd": What.SESSION_OVER,
}
_NOTICES = {
    "permission_prompt": What.ASKS,
    "elicitation_dialog": What.ASKS,
    "idle_prompt": What.AT_REST,
}

Event = Literal["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
_TAKING: dict[str, Event] = {event: event for event in get_args(Event)}


class _Specific(msgspec.Struct, rename="camel", frozen=True):
    hook_event_name: Event
    additional_context: str


class _Output(msgspec.Struct, rename="camel", frozen=True):
    """No `decision`: a stop goes on for context alone, and a reason would show the hook's command line to the model."""

    hook_specific_output: _Specific


class Claude:
    name = "claude"
    queues = True
    begins_idle = True

    def read(self, data: bytes) -> Told:
        fields = Fields.parse(data)
        event = fields.text("hook_event_name")
        what = _WHAT.get(event, What.OTHER)
        if event == "Notification":
            what = _NOTICES.get(fields.text("notification_type"), What.OTHER)
        if event == "SessionStart" and fields.text("source") == "compact":
            what = What.OTHER  # in the middle of a session that goes on
        return Told(
            what=what,
            event=event,
            session=fields.text("session_id"),
            turn=fields.text("prompt_id"),
            prompt=fields.text("prompt"),
            words=fields.text_or_none("last_assistant_message"),
            transcript=fields.text("transcript_path"),
            is_clear=event == "SessionEnd" and fields.text("reason") in ("clear", "resume"),
            is_within=bool(fields.text("agent_id")),
        )

    def takes_context(self, told: Told) -> bool:
        return told.event in _TAKING

    def context(self, told: Told, text: str) -> bytes:
        return msgspec.json.encode(_Output(_Specific(_TAKING[told.event], text)))
