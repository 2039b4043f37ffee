"""Messages as a person reads them: one that is handed over, all that is known of one, many in a table; their steps."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fleettrio.api.moments import means
from fleettrio.api.schema import InboxMessage, JournalLine, MessageView, Shown
from fleettrio.clients.cli.body import marked
from fleettrio.clients.cli.table import at_time, print_json, print_table, say
from fleettrio.local.sanitise import one_line

__all__ = ("print_journal", "print_message", "print_messages", "print_shown")


def print_message(message: InboxMessage) -> None:
    """A message with every line of its body marked, so that nothing in it can look like the line above it."""
    kind = {"SEND": message.intent, "ASK": "question"}.get(message.kind, message.kind.lower())
    about = [kind, message.short]
    if message.re is not None:
        about.append(f"answers {message.re[-8:]}")
    if message.auto:
        about.append("last words of a turn")
    if message.repeat:
        about.append("may be a repeat")
    say(one_line(f"{message.sender} · {at_time(message.ts)} · {' · '.join(about)}", 200), indent="  ")
    if message.stale:
        say(f"stale: {one_line(message.stale, 400)}", indent="  ")
    print(marked(message.body))
    if message.wants_reply:
        print(f"answer: fleettrio reply {message.short} 'TEXT'")
    if message.kind == "ASK":
        print(f"answer: fleettrio answer {message.short} 'TEXT' (waited for until {at_time(message.expires_at)})")
    print()


def print_shown(shown: Shown, *, as_json: bool) -> int:
    """All that is known of a message: of each recipient, and the steps that were noted."""
    if as_json:
        print_json(shown)
        return 0
    members = [m for m in shown.messages if m.to and m.direction == "out" and not m.is_head]
    told = {_key(member) for member in members}
    for message in shown.messages:
        if _key(message) in told:
            continue  # below, with the other members
        sides = [other for other in shown.messages if _key(other) == _key(message)]
        _print_view(message, _side(message) if len(sides) > 1 else "", sides[0])
    if members:
        print()
        print_table(
            ("MEMBER", "STATE", "SINCE", "WHY"),
            [(m.recipient, m.state, at_time(m.at), m.sentence + " (reported later)" * m.late) for m in members],
            whole=("MEMBER", "SINCE"),
        )
    if shown.journal:
        print()
        print_journal(shown.journal)
    return 0


def _key(message: MessageView) -> tuple[str, str]:
    """A message to one recipient; both of its sides have it when they are on one host."""
    return message.msg_id, message.gid


def _side(message: MessageView) -> str:
    return "at the sender" if message.direction == "out" else "at the recipient"


def _print_view(message: MessageView, side: str, first: MessageView) -> None:
    """All that is known of a message; of its other side, `first` being told already, what is different there."""
    where = f"{side}: " if side else ""
    say(f"{message.short}  {where}{one_line(message.sentence, 500)}", indent="          ")
    told = () if message is first else _facts(first)
    for name, value in _facts(message):
        if value and (name, value) not in told:
            say(f"  {name:<9} {value}", indent=" " * 12)


def _facts(message: MessageView) -> list[tuple[str, str]]:
    way = f"{message.sender} → {message.recipient}"
    times = [
        ("sent", f"{at_time(message.ts)}, expires {at_time(message.expires_at)}"),
        ("since", at_time(message.at) + (f", by {one_line(means(message.via), 40)}" if message.via else "")),
    ]
    if not message.expires_at:  # it is put off, and begins to expire when it goes out
        times = [("asked for", at_time(message.ts)), ("due", at_time(message.at))]
    return [
        (message.kind.lower(), one_line(way, 68)),
        ("state", one_line(message.state + (f" ({message.reason})" if message.reason else ""), 68)),
        ("detail", one_line(message.detail, 300)),
        ("stale", one_line(message.stale, 400)),
        *times,
        ("answers", message.re or ""),
        ("answer", message.answered_by or ""),
        ("id", message.msg_id),
        ("trace", message.trace_id),
        ("body", _body_of(message)),
    ]


def _body_of(message: MessageView) -> str:
    """How long it is and how it begins; the sender, who keeps no body, has that alone, or what an order asks for."""
    begins = one_line(message.preview, 60)
    if message.direction == "out" and not message.size:
        return begins
    return f"{message.size} bytes" + (f": {begins}" if begins else "")


def print_journal(journal: Sequence[JournalLine], *, has_heading: bool = True) -> None:
    """One line for each step; `has_heading` is false for lines that follow others."""
    print_table(
        ("AT", "HOST", "WHAT", "MESSAGE", "AGENT", "PEER", "WHY"),
        (
            (
                _moment(line.at),
                line.host,
                line.what,
                line.msg_id[-8:],
                line.who.partition("@")[0],
                line.peer,
                ": ".join(filter(None, (line.reason, line.detail))),
            )
            for line in journal
        ),
        whole=("AT", "MESSAGE"),
        has_heading=has_heading,
    )


def _moment(wall_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall_ms / 1000)) + f".{wall_ms % 1000:03d}"


def print_messages(messages: Sequence[MessageView], *, owner: str = "") -> None:
    """One line for each message. `owner`: whose inbox it is, whom a column does not name again and again."""
    ends = {"FROM": [message.sender for message in messages], "TO": [message.recipient for message in messages]}
    shown = {name: cells for name, cells in ends.items() if not owner or set(cells) != {owner}}
    print_table(
        ("ID", "AT", *shown, "STATE", "ABOUT"),
        (
            (
                message.short,
                at_time(message.ts),
                *(cells[place] for cells in shown.values()),
                message.state + (f"({message.reason})" * bool(message.reason)),
                message.sentence if message.is_head else message.preview or message.kind.lower(),
            )
            for place, message in enumerate(messages)
        ),
        whole=("ID", "AT"),
        is_cut=True,
    )
