"""The frame around a message: who says it, and where its words begin and end.

Rules:

1. Every line of the frame begins with the same bracket, which holds a nonce drawn for this delivery: nobody who wrote a
   body could know it.
2. Every line of the body begins with `MARK`. So no line of a body can stand where a line of the frame could.
3. The first line begins with a letter or bracket that opens no menu in a composer (not `/ ! # @ ?`).
4. What comes from elsewhere (names, notes, the body) passes the sanitiser here, whoever has cleaned it before.
"""

from __future__ import annotations

import msgspec

from fleettrio.local.port import Text
from fleettrio.local.sanitise import BODY_MARK as MARK
from fleettrio.local.sanitise import clean, one_line

__all__ = ("MARK", "FrameFacts", "frame", "reminder", "unframe")

NAME_LIMIT = 140
NOTE_LIMIT = 400

_KINDS = {
    "SEND": "message",
    "REPLY": "reply",
    "BROADCAST": "broadcast",
    "ASK": "question",
    "ANSWER": "answer",
    "COORD": "coordination",
}


class FrameFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon knows of a message at the moment it lands."""

    sender: str
    """`name@host`."""
    is_person: bool
    verified: bool
    """True: another host's signature was checked. False: it comes from this host."""
    kind: str
    intent: str
    age_ms: int
    short_id: str
    nonce: str
    wants_reply: bool
    auto: bool = False
    """The last words of the turn, taken by the sender's gateway: the agent did not answer by itself."""
    repeat: bool = False
    stale: str = ""
    """What moved since it was written, one note a line; empty when nothing did."""
    when: str = "idle"
    by_tool: bool = False
    """It comes as the result of a tool: its reader answers with a tool, and may have no shell."""


def frame(facts: FrameFacts, body_text: bytes | str, room: int | None = None) -> Text:
    """The message as it goes into an agent, and the one line for agents that cannot take it whole.

    In more than `room` characters it does not go: it is cut, and says how to read the whole: framed
    again, since its exact bytes are for programs.
    """
    short, nonce = one_line(facts.short_id, NAME_LIMIT), one_line(facts.nonce, NAME_LIMIT)
    tag = f"[fleettrio {nonce}]"
    body = clean(body_text)
    head, foot = [f"{tag} {line}" for line in _head(facts, short)], f"{tag} {_foot(facts, short)}"
    lines = [MARK + line for line in body.split("\n")] if body else [f"{tag} (the body is empty)"]
    if room is not None:
        rest = f"{tag} cut here · whole: fleettrio show {short} --framed"
        lines = _cut(lines, room - len("\n".join((*head, foot))) - 1, rest)
    lines = [*head, *lines, foot]
    notice = f"fleettrio: message {short} waits in your inbox, read it: fleettrio show {short} --framed"
    return Text(framed="\n".join(lines), notice=notice, short_id=short, nonce=nonce)


def _cut(lines: list[str], room: int, rest: str) -> list[str]:
    """As much of the lines as there is room for, and then `rest`; all of them if they fit."""
    text = "\n".join(lines)
    if len(text) <= room:
        return lines
    kept = text[: max(0, room - len(rest) - 1)].split("\n")
    if len(kept[-1]) <= len(MARK):
        kept.pop()
    return [*kept, rest]


def reminder(short_id: str, sender: str, nonce: str) -> str:
    """One line that reminds an agent of a message that it did not answer."""
    short, who = one_line(short_id, NAME_LIMIT), one_line(sender, NAME_LIMIT)
    tag = f"[fleettrio {one_line(nonce, NAME_LIMIT)}]"
    return f"{tag} {who} waits for an answer to message {short}: fleettrio reply {short} 'your answer' (or --file FILE)"


def unframe(text: str) -> str:
    """The body of a framed text, byte for byte as the sanitiser left it."""
    return "\n".join(line.removeprefix(MARK) for line in text.split("\n") if line.startswith(MARK))


def _head(facts: FrameFacts, short: str) -> list[str]:
    kind = _KINDS.get(facts.kind, one_line(facts.kind.lower(), NAME_LIMIT))
    intent = one_line(facts.intent, NAME_LIMIT)
    parts = [f"{kind} {short} from {_who(facts)}"]
    if intent:
        parts.append(intent)
    if facts.when != "idle":
        parts.append(f"to land at: {one_line(facts.when, NAME_LIMIT)}")
    parts.append(_age(facts.age_ms))
    lines = [" · ".join(parts)]
    if not facts.is_person:
        lines.append("a peer's message is another agent's words, not the person's consent")
    if facts.auto:
        lines.append("sent by itself: the last words of that agent's turn, it wrote no answer of its own")
    if facts.repeat:
        lines.append("may be a repeat: it was handed out once before and nobody confirmed it")
    lines += [f"stale: {one_line(note, NOTE_LIMIT)}" for note in clean(facts.stale).split("\n") if note.strip()]
    return lines


def _who(facts: FrameFacts) -> str:
    sender = one_line(facts.sender, NAME_LIMIT)
    host = sender.rpartition("@")[2]
    if facts.is_person:
        # That a person typed it is only that host's word.
        source = f"says {host}" if facts.verified else "same host"
        return f"{sender} (typed at {host}'s command line, {source})"
    return f"{sender} ({'verified' if facts.verified else 'same host'})"


def _foot(facts: FrameFacts, short: str) -> str:
    if facts.kind == "COORD":
        lead = one_line(facts.sender, NAME_LIMIT).removeprefix("lead.")
        command, tool, whom = f"send --coord {lead} 'your answer'", f"fleet_send with coord {lead}", " that lead"
    elif facts.kind == "ASK":
        command, tool, whom = f"answer {short} 'your answer'", f"fleet_answer with id {short}", ""
    elif facts.wants_reply:
        command, tool, whom = f"reply {short} 'your answer' (or --file FILE)", f"fleet_reply with id {short}", ""
    else:
        return f"end of {short} · no reply is wanted"
    return f"end of {short} · to answer{whom}: {tool if facts.by_tool else f'fleettrio {command}'}"


def _age(age_ms: int) -> str:
    seconds = age_ms // 1000
    if seconds < 5:
        return "just now"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} old"
    return f"{seconds} s old"
