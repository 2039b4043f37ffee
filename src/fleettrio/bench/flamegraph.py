"""Flame graphs as small pictures: a box is a function, as wide as its share of the samples, on top of who called it.

No script, no path of a machine: such a picture can be kept beside the sources.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Iterator, Mapping

__all__ = ("WAITS", "Stacks", "flame_svg", "part_of", "parts_of", "read_stacks", "working")

Stacks = Mapping[tuple[str, ...], int]
"""Frames from the outermost to the innermost, each `function (file:line)`, and how many samples found them."""

WAITS = ("Writer._next_group", "WorkerThread._work", "EpollIOManager.get_events", "KqueueIOManager.get_events")
"""Where the threads of a daemon are while they have nothing to do. On some systems these pass for running."""
_WIDTH, _ROW, _CHAR = 1200, 15, 6.6
_LEAST = 0.004
"""What is narrower is left out; its caller shows its width all the same."""
_FRAME = re.compile(r"(?P<name>.*) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)")
_ROOTS = re.compile(r".*/(?:site-packages|dist-packages|lib/python3\.\d+|src)/")
_LIBRARIES = ("trio", "trio_asyncio", "asyncio", "aiormq", "aio_pika", "pamqp")
_COLOURS = {"core": "#f6a86b", "store": "#8fb7e0", "broker": "#a5d49a", "wire": "#e8d36f", "api": "#c9a3dc"}
_OURS, _THEIRS = "#f3c9b1", "#d9d9d9"


def read_stacks(raw: str) -> Stacks:
    """What py-spy writes in its raw format: a line for each stack, `outer;inner count`. Other lines are left out."""
    found: dict[tuple[str, ...], int] = {}
    for line in raw.splitlines():
        frames, _, count = line.rpartition(" ")
        if frames and count.isdigit():
            stack = tuple(_without_place(frame) for frame in frames.split(";"))
            found[stack] = found.get(stack, 0) + int(count)
    return found


def working(stacks: Stacks) -> Stacks:
    """Without the samples of threads that waited for something to do."""
    return {stack: count for stack, count in stacks.items() if stack[-1].partition(" (")[0] not in WAITS}


def part_of(frame: str) -> str:
    """The part of fleettrio that a frame is in (`core`, `store`), or the library (`trio`); empty for anything else."""
    found = _FRAME.fullmatch(frame)
    folders = found["file"].split("/") if found else []
    if len(folders) < 2:
        return ""
    if folders[0] == "fleettrio":
        return folders[1].removesuffix(".py")
    return folders[0] if folders[0] in _LIBRARIES else ""


def parts_of(stacks: Stacks) -> dict[str, float]:
    """Part → its share of all samples, the largest first: a sample is of the innermost part on its stack."""
    counts: dict[str, int] = {}
    for stack, count in stacks.items():
        part = next(filter(None, map(part_of, reversed(stack))), "other")
        counts[part] = counts.get(part, 0) + count
    total = sum(counts.values())
    return {part: count / total for part, count in sorted(counts.items(), key=lambda one: -one[1])}


def flame_svg(stacks: Stacks, title: str) -> str:
    """The picture. Raises ValueError when there is no sample."""
    root = _Box(title)
    for stack, count in stacks.items():
        root.add(stack, count)
    if not root.count:
        raise ValueError("no samples")
    boxes = list(root.boxes(root.count))
    height = (max(depth for _, depth, _ in boxes) + 1) * _ROW
    drawn = "\n".join(_drawn(box, height - (depth + 1) * _ROW, left, root.count) for box, depth, left in boxes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="monospace" '
        f'font-size="11">\n<rect width="100%" height="100%" fill="#fff"/>\n{drawn}\n</svg>\n'
    )


@dataclasses.dataclass(slots=True)
class _Box:
    frame: str
    count: int = 0
    above: dict[str, _Box] = dataclasses.field(default_factory=dict)

    def add(self, stack: tuple[str, ...], count: int) -> None:
        self.count += count
        if stack:
            box = self.above.setdefault(stack[0], _Box(stack[0]))
            box.add(stack[1:], count)

    def boxes(self, total: int, depth: int = 0, left: int = 0) -> Iterator[tuple[_Box, int, int]]:
        """Each box that is wide enough, its row, and the samples to its left."""
        yield self, depth, left
        for frame in sorted(self.above):
            box = self.above[frame]
            if box.count >= _LEAST * total:
                yield from box.boxes(total, depth + 1, left)
            left += box.count


def _drawn(box: _Box, top: int, left: int, total: int) -> str:
    x, width = _WIDTH * left / total, _WIDTH * box.count / total
    room = int((width - 4) / _CHAR)
    name = box.frame.partition(" (")[0]
    text = "" if room < 3 else name if len(name) <= room else f"{name[: room - 1]}…"
    shown = f'<text x="{x + 2:.0f}" y="{top + 11}">{html.escape(text)}</text>' if text else ""
    words = html.escape(f"{box.frame}, {box.count / total:.1%}")
    rect = (
        f'<rect x="{x:.1f}" y="{top}" width="{max(width - 0.5, 0.5):.1f}" height="{_ROW - 1}" fill="{_colour(box)}"/>'
    )
    return f"<g><title>{words}</title>{rect}{shown}</g>"


def _colour(box: _Box) -> str:
    return _COLOURS.get(part_of(box.frame), _OURS if "(fleettrio/" in box.frame else _THEIRS)


def _without_place(frame: str) -> str:
    """Files by their name in the package they belong to; of one that is nowhere known, the last part."""
    found = _FRAME.fullmatch(frame)
    if found is None:
        return frame
    file = _ROOTS.sub("", found["file"])
    place = file.rpartition("/")[2] if file.startswith("/") else file
    return f"{found['name']} ({place}:{found['line']})" if found["line"] else f"{found['name']} ({place})"
