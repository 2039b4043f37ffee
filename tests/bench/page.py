"""The figures on `docs/performance.md`: its text is written by hand, each table comes from `benchmarks/results`.

`make docs` draws them anew; what nobody recorded is said to be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fleettrio.bench.recorded import Recorded, newest, read_csv
from fleettrio.bench.report import deciding, figure, verdicts
from fleettrio.bench.results import Row

__all__ = ("PAGE", "RESULTS", "TABLES", "draw", "prose", "recorded", "tables_on_page")

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "performance.md", ROOT / "benchmarks" / "results"
_MARKED = re.compile(r"<!-- figures: ([a-z-]+) -->\n(.*?)<!-- end -->\n", re.DOTALL)
_NOTHING = "Nothing of it is recorded.\n"
_AXES = {"in flight": "in flight", "body": "bytes", "inboxes": "inboxes"}
_IDLE = 0.5
_USERS = ("G5", "G5.aio-pika", "G6", "G7", "G7.taking", "G8", "G8.p99")


def recorded(folder: Path = RESULTS) -> list[Recorded]:
    """Of each figure the newest."""
    return list(newest(one for file in sorted(folder.glob("*.csv")) for one in read_csv(file)).values())


def draw(page: Path = PAGE, folder: Path = RESULTS) -> None:
    """Write every table anew."""
    found = recorded(folder)
    text = _MARKED.sub(lambda mark: f"<!-- figures: {mark[1]} -->\n{TABLES[mark[1]](found)}<!-- end -->\n", _text(page))
    page.write_text(text, encoding="utf-8")


def tables_on_page() -> dict[str, str]:
    return dict(_MARKED.findall(_text(PAGE)))


def prose() -> str:
    """The page without its tables."""
    return _MARKED.sub("", _text(PAGE))


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


# --- the tables


def _made_on(found: Sequence[Recorded]) -> str:
    times: dict[tuple[str, str, str, str], list[str]] = {}
    for one in found:
        times.setdefault((one.commit, one.machine, one.python, one.load), []).append(one.when)
    rows = [
        (f"`{commit}`", *others, min(at) if min(at) == max(at) else f"{min(at)} to {max(at)}")
        for (commit, *others), at in times.items()
    ]
    return _table(("commit", "machine", "Python", "load before it", "recorded"), rows)


def _load(found: Sequence[Recorded]) -> str:
    """Whether the machine had anything else to do when the runs began, by its average of the minute before."""
    busy = [one for one in found if float(one.load.partition(" ")[0] or 0) > _IDLE * int(one.machine.split()[0])]
    if not found:
        return _NOTHING
    if not busy:
        return "The machine had nothing else to do when this was measured.\n"
    most = max((one.load.partition(" ")[0] for one in busy), key=float)
    return (
        f"**The machine was busy** when {len(busy)} of these {len(found)} figures were measured: up to {most}\n"
        "programs at a time wanted to run. Throughput and milliseconds are far from what an idle one gives;\n"
        "CPU of a message and ratios are nearer.\n"
    )


def _goals(found: Sequence[Recorded]) -> str:
    rows = [one.row for one in found]
    table = _figures(deciding(rows))
    return table if table == _NOTHING else f"{table}\n{'. '.join(verdicts(rows))}.\n"


def _users(found: Sequence[Recorded]) -> str:
    by_id = {one.row.id: one.row for one in found if one.row.implementation == "compiled"}
    return _figures([by_id[name] for name in _USERS if name in by_id])


def _pure(found: Sequence[Recorded]) -> str:
    """What was measured of both, each beside the same peer in the same run."""
    by_key = {one.row.key: one.row for one in found}
    pairs = [
        (row, by_key[f"{row.id} compiled"])
        for row in by_key.values()
        if row.implementation == "pure" and f"{row.id} compiled" in by_key and not row.at
    ]
    return _table(
        ("row", "what", "pure", "compiled", "beside", "pure is", "compiled is"),
        [
            (pure.id, pure.title, _figure(pure), _figure(compiled), _peer(pure), _ratio(pure), _ratio(compiled))
            for pure, compiled in pairs
        ],
    )


def _of(prefix: str, *, implementation: str = "") -> Callable[[Sequence[Recorded]], str]:
    def table(found: Sequence[Recorded]) -> str:
        rows = [one.row for one in found if one.row.id.split(".")[0] == prefix]
        return _figures([row for row in rows if not implementation or row.implementation in ("", implementation)])

    return table


def _parts(found: Sequence[Recorded]) -> str:
    shares: dict[str, dict[str, str]] = {}
    for one in found:
        kind, _, rest = one.row.id.partition(".")
        if kind == "profile":
            end, _, part = rest.partition(".")
            shares.setdefault(part, {})[end] = _figure(one.row)
    rows = [(f"`{part}`", ends.get("sending", "–"), ends.get("receiving", "–")) for part, ends in shares.items()]
    return _table(("part", "sending daemon", "receiving daemon"), rows)


def _curves(found: Sequence[Recorded]) -> str:
    by_key = {one.row.key: one.row for one in found}
    lines = []
    for row in by_key.values():
        if row.goal_id != "curve" or row.implementation != "compiled" or row.unit != "msg/s":
            continue
        ((axis, size),) = row.at.items()
        others = (f"{row.id} pure", f"{row.id}.p50 compiled", f"{row.id}.p99 compiled")
        pure, middle, most = (_figure(by_key[key]) if key in by_key else "–" for key in others)
        lines.append((f"{size:,.0f} {_AXES[axis]}".replace(",", " "), _figure(row), pure, _peer(row), middle, most))
    return _table(("with", "compiled", "pure", "beside", "on the way: median", "99 %"), lines)


def _paths(found: Sequence[Recorded]) -> str:
    by_id = {one.row.id: one.row for one in found if one.row.goal_id == "G14"}
    lines = []
    for path in dict.fromkeys(name.split(".")[-1] for name in by_id if not name.endswith(".p99")):
        rows = [by_id.get(f"G14.{place}{path}{end}") for place in ("here.", "") for end in ("", ".p99")]
        goal = next((row.goal for row in rows if row and row.goal), "–")
        judged = dict.fromkeys(row.verdict for row in rows if row and row.verdict)
        lines.append((path, *(_figure(row) if row else "–" for row in rows), goal, ", ".join(judged)))
    return _table(("way", "here: median", "99 %", "from another host: median", "99 %", "goal", "verdict"), lines)


TABLES: dict[str, Callable[[Sequence[Recorded]], str]] = {
    "load": _load,
    "made-on": _made_on,
    "users": _users,
    "goals": _goals,
    "parts": _parts,
    "peers": _of("hop"),
    "growth": _of("G13"),
    "paths": _paths,
    "room": _of("room"),
    "wire": _of("wire", implementation="compiled"),
    "curves": _curves,
    "pure": _pure,
}


def _figures(rows: Iterable[Row]) -> str:
    return _table(
        ("row", "what", "measured", "±", "beside", "ratio", "goal", "verdict"),
        [
            (
                row.id, row.title, _figure(row), f"{row.spread:.0%}" if row.measured is not None else "–",
                _peer(row), _ratio(row), row.goal or "–", row.verdict or "–",
            )
            for row in rows
        ],
    )  # fmt: skip


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    if not lines:
        return _NOTHING
    return "\n".join((f"| {' | '.join(headers)} |", f"|{'---|' * len(headers)}", *lines, ""))


def _figure(row: Row) -> str:
    return figure(row.measured, row.unit) if row.measured is not None else "–"


def _peer(row: Row) -> str:
    return f"{row.peer_name} {figure(row.peer, row.unit)}" if row.peer is not None else "–"


def _ratio(row: Row) -> str:
    return f"{figure(row.ratio)} ×" if row.ratio is not None else "–"
