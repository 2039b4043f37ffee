"""How our plugin in opencode speaks (`plugin/opencode.js`; events as seen with 1.18.33)."""

from __future__ import annotations

import msgspec

from fleettrio.api.hooks.told import Fields, Told, What

__all__ = ("OpenCode",)

_WHAT = {
    "plugin.started": What.OTHER,
    "session.created": What.SESSION_BEGAN,
    "chat.message": What.PROMPT,
    "tool.execute.after": What.AT_WORK,
    "permission.asked": What.ASKS,
    "permission.replied": What.AT_WORK,
    "session.idle": What.TURN_OVER,
    "session.interrupted": What.INTERRUPTED,
    "session.error": What.FAILED,
    "session.deleted": What.SESSION_OVER,
}


class _Output(msgspec.Struct, frozen=True):
    context: str


class OpenCode:
    name = "opencode"
    queues = False
    begins_idle = False

    def read(self, data: bytes) -> Told:
        fields = Fields.parse(data)
        event = fields.text("event")
        return Told(
            what=_WHAT.get(event, What.OTHER),
            event=event,
            session=fields.text("session"),
            turn=fields.text("message"),
            prompt=fields.text("prompt"),
            words=fields.text_or_none("words"),
            api=fields.text("api"),
            is_within=bool(fields.text("parent")),
        )

    def takes_context(self, told: Told) -> bool:
        return told.what is What.PROMPT

    def context(self, told: Told, text: str) -> bytes:
        return msgspec.json.encode(_Output(text))
