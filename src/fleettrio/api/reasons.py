"""What a reason means, in words of a person, and what to do about it: one table for each word that has reasons.

A line is a sentence without its full stop. `{who}` is the recipient, `{host}` its host, `{id}` the short id of the
message. A part that invents a reason adds its line here; a reason without one is shown as it is, with its detail.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ("ENDED", "FAILED", "HELD", "NO_WAITER", "REFUSALS", "UNCONFIRMED", "UNKNOWN", "reason_text")

_RETRY = "`fleettrio send --retry {id}` with the same body sends it again"

FAILED: Mapping[str, str] = {
    "abandoned": "whoever asked waits no longer",
    "broker-blocked": f"the broker takes no messages just now (memory or disk alarm); when it does, {_RETRY}",
    "broker-unreachable": f"the broker could not be reached, so it never left this host; {_RETRY}",
    "busy": f"too many messages waited for the broker; {_RETRY}",
    "claim-undecided": "nobody can decide who has its claim",
    "crash-suspect": "{host} came down twice in the middle of it and set it aside unread; `fleettrio dlq list` there",
    "crashed-mid-spawn": "{host} came down while it started the agent; ask for it again",
    "delivery-limit": f"the broker gave it out too often without an end; {_RETRY}",
    "host-silent": "{host} was not heard; `fleettrio ping {host}`",
    "inbox-full": "the inbox of {who} is full; it takes messages again when some were read",
    "ledger-lost": "the store of {host} is younger than the message: nobody knows whether it was delivered",
    "lost-with-broker": "the broker lost it: a question lives only as long as the connection; ask again",
    "nacked": "the inbox of {who} is full at the broker; try again later",
    "no-such-recipient": "nobody of that name is known; `fleettrio list` shows who is there",
    "no-waiter": "{who} does not listen just now; send it as a message instead",
    "overflow": f"the inbox of {{who}} was full at the broker, which pushed it out; later, {_RETRY}",
    "recipient-gone": "{who} is gone for good",
    "revoked": "the key of this host is not trusted at {host} any more",
    "spawn-failed": "its agent was not started",
    "spawn-interrupted": f"the daemon here ended before its agent was ready; once that is there, {_RETRY}",
    "stopped": "the agent was stopped",
    "store": "this host could not record it; free some disk space, `fleettrio doctor`",
    "too-late": "{who} does not wait for the answer any more, so it was dropped",
    "unroutable": "no inbox of {who} is on the broker; `fleettrio list` shows who is there",
}
"""Why it was not delivered, and will not be by itself."""

NO_WAITER: Mapping[str, str] = {
    "answered": "{who} has an answer already",
    "backlog": "the inbox of {who} is full, so a question would not be seen in time; send it as a message instead",
    "loop": "agents go on asking each other without a person; what a person says to one of them begins the count anew",
    "paused": "{who} is paused; a person lets it go on: `fleettrio resume`",
    "restarted": "the daemon of {host} was started anew, so nobody there has the question any more; ask again",
}
"""Why nobody listens to a question, or waits for an answer, where more is known."""

REFUSALS: Mapping[str, str] = {
    "conflict": "another message has its id there: somebody changed one of the two",
    "crash-suspect": "it came down twice in the middle of it and set it aside unread; `fleettrio dlq list` there",
    "expired": "it had expired when it came",
    "future": "it was sent from the future: one of the two clocks is wrong; `fleettrio doctor` on both",
    "internal-error": "it could not handle it; the log there says more",
    "malformed": "it is not well formed; do both run the same version? `fleettrio list`",
    "not-an-agent": "only agents are stopped: not the person at a host, nor its daemon",
    "not-a-person": "only a person may do that: resume, or pause a host or everything",
    "not-party": "it was about a message between others",
    "recipient-gone": "{who} is gone for good",
    "too-many": "too many pauses are in force there; `fleettrio resume --all` on {host}",
    "unknown-kind": "its version does not know this kind of message; update fleettrio on {host}",
    "version": "it is of a newer version than {host} speaks; update fleettrio on {host}",
    "wrong-host": "it does not come from the host that it claims",
    "wrong-recipient": "{who} does not take what goes to that key (any more)",
}
"""Why its host did not take it in. What is about trust or a grant has a command that mends it (`sentences`)."""

HELD: Mapping[str, str] = {
    "claim": "it waits for its claim: who of those who were asked has it, is not decided",
    "loop": "it is held: agents answer each other without a person; `fleettrio resume {id}` on {host} lets it go on",
    "paused": "it is held: somebody paused it; `fleettrio status` on {host} says who, and what lets it go on",
    "look": "the work tree is looked at first",
}
"""Why it waits although its agent could take it."""

UNCONFIRMED: Mapping[str, str] = {
    "crashed": "the daemon ended in the middle of writing it",
    "ledger-lost": "the store there is younger than the message: it may have been delivered before",
    "mid-turn": "it was typed while the agent worked",
    "not-observed": "no turn was seen to begin",
    "offered": "it was handed out, and nobody said that it arrived",
}
"""Why nobody knows whether it arrived. It is never repeated by itself."""

UNKNOWN: Mapping[str, str] = {
    "gateway-restarted": "this host's daemon ended before the broker had confirmed it",
    "partly": f"an inbox at the broker took no more, so it is not known who has it; {_RETRY} to those who have not",
}
"""Why nothing is known yet."""

ENDED: Mapping[str, str] = {
    "drained": "{who} took it",
    "expired": "it was not, and will not be, delivered to {who}: its time was over",
    "recalled": "it was not, and will not be, delivered to {who}: it was called back",
    "superseded": "it was not, and will not be, delivered to {who}: a later message replaces it",
    "failed": "it was not, and will not be, delivered to {who}",
    "ready": "{who} is there and takes messages",
    "done": "done",
}
"""What a last word means where it has no reason."""


def reason_text(
    table: Mapping[str, str], reason: str, detail: str, *, who: str = "", host: str = "", short: str = ""
) -> str:
    """The line of `reason`, which may have a tail (`spawn: no profile`), with what is known in particular."""
    line = table.get(reason) or table.get(reason.partition(":")[0].partition("(")[0])
    said = line.format(who=who, host=host, id=short) if line else reason
    return f"{said} ({detail})" if line and detail else f"{said}: {detail}" if detail else said
