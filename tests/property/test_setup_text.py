"""Our parts of a settings file: put in and taken out of any text, the rest is the same to the byte."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from fleettrio.clients.setup.jsonparts import Part, containers, has_all, with_parts, without
from fleettrio.clients.setup.jsontree import BrokenText, read_json

NAMES = st.sampled_from(["hooks", "Stop", "permissions", "allow", "model", "x,y", 'a"b', "é"])
PLAIN = st.one_of(st.integers(-5, 5), st.booleans(), st.none(), st.sampled_from(["", "//", "/* */", "},]", "ü\\"]))
VALUES = st.recursive(
    PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)), max_leaves=8
)
LISTS = st.dictionaries(st.sampled_from(["Stop", "Other"]), st.lists(VALUES, max_size=2), max_size=2)
TREES = st.one_of(
    st.dictionaries(NAMES, VALUES, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "model": PLAIN,
            "hooks": LISTS,
            "permissions": st.dictionaries(st.just("allow"), st.lists(PLAIN, max_size=2)),
            "servers": st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2),
            "theme": VALUES,
        },
    ),
)
PARTS = [
    Part(("hooks", "Stop", ""), {"hooks": [{"type": "command", "command": "ours"}]}),
    Part(("hooks", "Start", ""), {"hooks": [{"type": "command", "command": "ours"}]}),
    Part(("permissions", "allow", ""), "ours"),
    Part(("servers", "ours"), {"command": ["ours"]}),
]


def ours(path: tuple[str, ...], value: Any) -> bool:
    return any(part.path == path and part.value == value for part in PARTS)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A settings file as somebody might have written it."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    gap = st.sampled_from(["", " ", "  ", newline, newline + "  ", newline + "\t", " /* , } */ ", " // , ]" + newline])

    def write(value: Any) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        if isinstance(value, dict):
            written = [json.dumps(k) + draw(gap) + ":" + draw(gap) + write(v) for k, v in value.items()]
        else:
            written = [write(v) for v in value]
        inner = draw(gap)
        for number, entry in enumerate(written):
            comma = "," if number < len(written) - 1 or draw(st.booleans()) else ""
            inner += entry + draw(gap) + comma + draw(gap)
        return ("{%s}" if isinstance(value, dict) else "[%s]") % inner

    tree = draw(TREES)
    if draw(st.booleans()):
        indent = draw(st.sampled_from(["\t", "  ", "    ", None]))
        text = json.dumps(tree, indent=indent).replace("\n", newline)
    else:
        text = draw(gap) + write(tree)
    return text + draw(st.sampled_from(["", newline, newline + newline]))


@settings(deadline=None)  # a slow machine is no fault
@given(texts())
def test_what_was_put_in_comes_out_again_to_the_byte(text: str) -> None:
    before = read_json(text).value
    try:
        after, made = with_parts(text, PARTS)
    except BrokenText:
        event("something of another shape stands where our parts belong")
        return
    assert has_all(after, PARTS, ours)
    assert with_parts(after, PARTS) == (after, [])
    value = read_json(after).value
    for name in before:
        if name not in ("hooks", "permissions", "servers"):
            assert value[name] == before[name]
    assert without(after, ours, made) == text


@settings(deadline=None)  # a slow machine is no fault
@given(texts(), NAMES, st.sampled_from(["hooks", "", "permissions"]))
def test_what_somebody_added_meanwhile_stays(text: str, name: str, where: str) -> None:
    foreign = Part(((where,) if where else ()) + (name + "!",), {"added": ["meanwhile"]})
    try:
        after, made = with_parts(text, PARTS)
        edited, _ = with_parts(after, [foreign])
        wanted, _ = with_parts(text, [foreign])
    except BrokenText:
        return
    left = without(edited, ours, made)
    assert read_json(left).value == read_json(wanted).value
    assert not has_all(left, PARTS[:1], ours)


@settings(deadline=None)  # a slow machine is no fault
@given(texts())
def test_when_nobody_remembers_what_was_made_nothing_of_ours_is_left(text: str) -> None:
    try:
        after, _ = with_parts(text, PARTS)
    except BrokenText:
        return
    left = without(after, ours, containers(after, ours))
    assert "ours" not in left
    kept = {name for name, value in read_json(text).value.items() if value not in ({}, [])}
    assert kept <= set(read_json(left).value) | {"hooks", "permissions"}
