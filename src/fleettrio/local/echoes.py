"""Marks of deliveries that a prompt hook gives back: the plainest evidence that a text became a turn.

A frame carries a nonce drawn for one delivery, a notice the short id of its message. Whoever puts a text in expects its
mark; the hook that the harness runs with the prompt says what it saw. A mark nobody expects is nobody's evidence: a
prompt may hold any text.
"""

from __future__ import annotations

import re

import trio

__all__ = ("Echoes", "carries_frame")

MOST = 1024
"""Marks expected at once. A transport that gave up leaves its mark, so that a late echo still counts."""

_mark = re.compile(r"\[fleettrio ([0-9a-zA-Z]{1,64})\]|fleettrio: message (\S{1,64}) waits in your inbox")
_frame = re.compile(
    r"^\s*(?:\[fleettrio [0-9a-zA-Z]{1,64}\] |fleettrio: message \S+ waits in your inbox)", re.MULTILINE
)


class Echoes:
    """One for the daemon. Nothing here blocks."""

    def __init__(self) -> None:
        self._expected: dict[str, trio.Event] = {}

    def expect(self, mark: str) -> trio.Event:
        """Set once a prompt with `mark` was heard: the nonce of a frame, or the short id that a notice names."""
        event = self._expected.setdefault(mark, trio.Event())
        while len(self._expected) > MOST:
            del self._expected[next(iter(self._expected))]
        return event

    def heard(self, text: str) -> tuple[str, ...]:
        """A prompt became a turn: the expected marks in it, each given back once, in the order they stand there."""
        found: list[str] = []
        for match in _mark.finditer(text):
            mark = match[1] or match[2]
            if (event := self._expected.pop(mark, None)) is not None:
                event.set()
                found.append(mark)
        return tuple(found)


def carries_frame(text: str) -> bool:
    """True for a prompt with a line of our frame, or our notice: no person typed it, whoever drew its nonce."""
    return _frame.search(text) is not None
