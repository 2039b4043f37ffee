"""Whether a history keeps the promises. It restates no rule of the core: it compares what people were told with what
really went into agents and clients.
"""

from __future__ import annotations

from collections import defaultdict

from tests.sim.history import Handed, History, Message, Question, Told, Typed

__all__ = ("broken_promises",)

LAST_WORDS = frozenset({"injected", "drained", "unconfirmed", "failed", "expired", "recalled", "superseded"})
NOT_DELIVERED = frozenset({"failed", "expired", "recalled", "superseded"})
TAKEN = frozenset({"confirmed", "held", "injected", "unconfirmed", "drained"})
"""Words with which a send call comes back when the broker, or the neighbour, has the message."""
HEALED_S = 60.0
"""Time enough, in a world without faults, for everything that waits to be delivered."""
CLOCKS_S = 25.0
"""More than any two clocks differ that are not far off."""
TELLING_S = 80.0
"""Time enough for its sender to hear of it."""
POLL_S = 120.0
"""So long a host waits for a sign that its agent has what it polled, before it says that it does not know."""


def broken_promises(history: History) -> list[str]:
    """Every promise that was broken, in words; empty when all were kept. Called when all time has run out."""
    told: dict[tuple[str, str], list[Told]] = defaultdict(list)
    typed: dict[tuple[int, str], list[Typed]] = defaultdict(list)
    handed: dict[tuple[int, str], list[Handed]] = defaultdict(list)
    for word in history.told:
        told[word.msg_id, word.gid].append(word)
    for entry in history.typed:
        typed[entry.number, entry.agent.gid].append(entry)
    for got in history.handed:
        handed[got.number, got.client.gid].append(got)
    places = [(t.number, t.agent) for t in history.typed] + [(h.number, h.client) for h in history.handed]
    broken = [
        f"P4 #{number} came to {party.address}, and nobody sent it there"
        for number, party in places
        if (number, party.gid) not in history.messages
    ]
    for key, message in history.messages.items():
        words, texts, gots = told[message.msg_id, message.row_gid], typed[key], handed[key]
        broken += [f"P1 {it}" for it in _one_outcome(message, words, bool(texts or gots), history)]
        broken += [f"P1 {it}" for it in _not_lost(message, words, bool(texts or gots), history)]
        broken += [f"P1 {it}" for it in _no_refusal_of_what_came(message, words, texts, gots, history)]
        broken += [f"P1 {it}" for it in _told_in_time(message, words, texts, gots, history)]
        broken += [f"P2 {it}" for it in _typed_once(message, texts)]
        broken += [f"P3 {it}" for it in _seen_once(message, gots)]
    for question in history.questions.values():
        broken += [f"question: {it}" for it in _asked_and_answered(question, told[question.msg_id, question.to.gid])]
    broken += [f"presence: {it}" for it in history.risen]
    return [*broken, *(f"P7 {it}" for it in _in_order(history))]


def _one_outcome(message: Message, words: list[Told], was_delivered: bool, history: History) -> list[str]:
    name = message.name
    if not words:
        if message.verdict not in ("", "refused"):
            return [f"{name} was accepted and nothing is known of it"]
        return [f"{name} was never accepted, and was delivered"] if was_delivered else []
    last = words[-1].state
    if message.kind == "COORD" and last == "unknown":
        return []  # nobody asks another lead's host: one that has it tells (`_told_in_time`), and there may be none
    if last not in LAST_WORDS:
        return [f"{name} never got its outcome: it still reads {last} ({words[-1].reason})"]
    if history.is_a_host_copied:
        return []
    faults = []
    # A refusal was another copy's, and the word that puts it right was lost, or refused for its time: it is told only
    # until the broker has it.
    is_unheard = history.is_word_lost or history.is_a_clock_far_off
    is_put_right_in_vain = words[-1].reason.startswith("refused") and is_unheard
    if last in NOT_DELIVERED and was_delivered and not is_put_right_in_vain:
        faults.append(f"{name} reads {last} ({words[-1].reason}), and was delivered")
    if last == "injected" and not was_delivered:
        faults.append(f"{name} reads injected, and was never typed")
    if last == "drained" and (message.number, message.to.gid) not in history.confirmed:
        faults.append(f"{name} reads drained, and no client confirmed it")
    by_peer = [word.state for word in words if word.said_by == "peer" and word.state in LAST_WORDS]
    changes = [state for state, before in zip(by_peer, ["", *by_peer], strict=False) if state != before]
    if len(changes) > 1 and changes[0] != "failed" and changes != ["unconfirmed", "injected"]:
        faults.append(f"{name} had more than one outcome: {' then '.join(changes)}")
    return faults


def _not_lost(message: Message, words: list[Told], was_delivered: bool, history: History) -> list[str]:
    """What the broker took and had time enough after everything was mended has come out at the other end."""
    if history.is_a_host_copied:
        return []
    is_due = message.expires_at > history.healed_at + HEALED_S and message.verdict in TAKEN
    is_unwanted = message.was_cancelled or message.was_replaced
    is_excused = is_unwanted or message.number in history.dropped or history.is_a_clock_far_off
    if not is_due or is_excused or was_delivered or (words and words[-1].state in ("unconfirmed", "failed")):
        return []
    return [f"{message.name} was taken, and lost: {words[-1].state if words else 'nothing'}"]


def _told_in_time(
    message: Message, words: list[Told], texts: list[Typed], gots: list[Handed], history: History
) -> list[str]:
    """What became of a message long ago is known to its sender, without that anything had to expire first."""
    if history.is_word_lost or history.is_a_clock_far_off or history.is_a_host_copied or not words:
        return []
    is_confirmed = (message.number, message.to.gid) in history.confirmed
    ends = [text.at + (POLL_S if text.is_polled else 0.0) for text in texts] + [got.at for got in gots if is_confirmed]
    told = [word for word in words if word.at <= history.settled_at]
    if not ends or min(ends) > history.settled_at - TELLING_S or (told and told[-1].state in LAST_WORDS):
        return []
    return [f"{message.name} came, and its sender still reads {told[-1].state}"]


def _no_refusal_of_what_came(
    message: Message, words: list[Told], texts: list[Typed], gots: list[Handed], history: History
) -> list[str]:
    """Nobody refuses what is in order, and nobody says that it did not come when it had come already."""
    refused = [word.reason for word in words if word.state == "failed" and word.reason.startswith("refused")]
    if refused and not history.is_anything_forged and not history.is_a_clock_far_off:
        return [f"{message.name} was in order, and its sender was told {reason}" for reason in refused]
    came = [text.at for text in texts] + [got.at for got in gots]
    if not came or history.is_a_clock_far_off or history.is_a_host_copied:
        return []
    late = [word for word in words if word.state in NOT_DELIVERED and word.said_at > min(came) + CLOCKS_S]
    return [f"{message.name} had come when it was told {w.state} ({w.reason})" for w in late]


def _in_order(history: History) -> list[str]:
    """Per sender, recipient and moment: what was taken at once is delivered in the order in which it was sent.

    What is marked as a repeat was offered before, to somebody who may have had it: that was its turn. What was refused
    may come again as a copy of the broker's, once it would be taken: its sender knows that it did not come in its turn.
    """
    refused = {(w.msg_id, w.gid) for w in history.told if w.state == "failed" and w.reason.startswith("refused")}
    handed = [h for h in history.handed if not h.is_repeat]
    came = [*((t.number, t.agent.gid) for t in history.typed), *((h.number, h.client.gid) for h in handed)]
    last: dict[tuple[str, str, str, str], int] = {}
    broken = []
    for message in (history.messages[key] for key in dict.fromkeys(came) if key in history.messages):
        if message.verdict not in TAKEN or message.was_retried or history.is_a_host_copied:
            continue
        if (message.msg_id, message.row_gid) in refused:
            continue
        way = (message.sender.address, message.to.address, message.kind, message.when)
        if last.get(way, 0) > message.number:
            broken.append(f"{message.name} came after #{last[way]}")
        last[way] = max(last.get(way, 0), message.number)
    return broken


def _asked_and_answered(question: Question, words: list[Told]) -> list[str]:
    """It ends, and what comes out of the call that asked is the one thing that was answered, once."""
    name = f"?{question.number} of {question.asker.address} to {question.to.address}"
    faults = []
    if words and words[-1].state not in LAST_WORDS:
        faults.append(f"{name} never ended: it still reads {words[-1].state} ({words[-1].reason})")
    if words and words[-1].is_answered and not question.given:
        faults.append(f"{name} reads answered, and nobody answered it")
    if len(question.got) > 1:
        faults.append(f"{name} was answered {len(question.got)} times")
    if strange := [text for text in question.got if text not in question.given]:
        faults.append(f"{name} got {strange[0]}, which nobody said to it")
    return faults


def _typed_once(message: Message, texts: list[Typed]) -> list[str]:
    stores = [text.store for text in texts]
    return [
        f"{message.name} was typed {stores.count(store)} times"
        for store in sorted(set(stores))
        if stores.count(store) > 1
    ]


def _seen_once(message: Message, gots: list[Handed]) -> list[str]:
    first: dict[int, Handed] = {}
    for got in gots:
        first.setdefault(got.store, got)
    again = [got for got in gots if got is not first[got.store] and not got.is_repeat]
    return [f"{message.name} was handed again at {got.at:.1f}, not marked as a repeat" for got in again]
