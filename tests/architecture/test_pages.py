"""The pages of `docs/` name kinds, files, tests, commands and other pages; all of it must be there."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import click
import pytest

from fleettrio.clients.cli.main import cli
from fleettrio.wire.envelope import Envelope
from fleettrio.wire.kinds import Kind
from fleettrio.wire.signing import REFUSAL_REASONS
from tests.architecture.sources import ROOT

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in ("README.md", "AGENTS.md"))])
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]
FLOWS = (ROOT / "docs" / "flows.md").read_text(encoding="utf-8")
PROMISES = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
CODE = re.compile(r"^```\w*\n.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^<!-- prints -->\n```\w*\n.*?^```$", re.MULTILINE | re.DOTALL)
PICTURES = dict(re.findall(r"^## ([^\n]+)\n\n```mermaid\n(.*?)^```$", FLOWS, re.MULTILINE | re.DOTALL))
ARROW = re.compile(r"^    \w+-?-?[>x)]+\w+: (.+)$", re.MULTILINE)


@functools.cache
def _functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:src|tests|docs|scripts|examples)/[\w./-]+)(?:::\w+)?`", page.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_page_that_a_page_links_to_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`(tests/[\w./]+\.py)::(\w+)`", page.read_text(encoding="utf-8"))
    assert [f"{file}::{name}" for file, name in named if name not in _functions_of(ROOT / file)] == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_command_that_a_page_shows_exists(page: Path) -> None:
    typed = PRINTED.sub("", page.read_text(encoding="utf-8"))
    code = "\n".join(CODE.findall(typed))
    shown = re.findall(r"(?:^`*|\$ |\()fleettrio ([a-z]+)(?: ([a-z]+))?", code, re.MULTILINE)
    wrong = []
    for name, second in shown:
        command = cli.get_command(click.Context(cli), name)
        is_there = command is not None
        if isinstance(command, click.Group) and second:
            is_there = command.get_command(click.Context(command), second) is not None
        if not is_there:
            wrong.append(f"{name} {second}".strip())
    assert wrong == []


def test_every_promise_has_its_tests() -> None:
    parts = re.split(r"^## (P\d) ", PROMISES, flags=re.MULTILINE)[1:]
    proofs = {
        name: re.findall(r"`tests/[\w./]+\.py::\w+`", text) for name, text in zip(parts[::2], parts[1::2], strict=True)
    }
    assert list(proofs) == [f"P{number}" for number in range(1, 9)]
    assert [name for name, tests in proofs.items() if len(tests) < 3] == []


@pytest.mark.parametrize("title", PICTURES)
def test_every_picture_is_drawn_by_its_rules(title: str) -> None:
    """A semicolon or a hash ends a statement of mermaid, wherever it stands."""
    first, *lines = [line.strip() for line in PICTURES[title].splitlines() if line.strip()]
    who = {found[1] for line in lines if (found := re.match(r"participant (\w+) as .", line))}
    assert first == "sequenceDiagram"
    assert FLOWS.count("```mermaid") == len(PICTURES), "each has a heading"
    for line in lines:
        assert ";" not in line
        assert "#" not in line
        named = re.match(r"Note over (\w+)(?:,(\w+))?: .", line) or re.match(r"(\w+)(?:-{1,2}>>|--x)(\w+): .", line)
        assert line.startswith("participant ") or (named and {*named.groups()} - {None} <= who), line


def test_every_kind_of_the_flows_is_one_and_every_kind_that_people_cause_is_drawn() -> None:
    drawn = {word for text in ARROW.findall(FLOWS) for word in re.findall(r"\b[A-Z][A-Z_]{2,}\b", text)}
    assert drawn - set(Kind) == set()
    said = set(re.findall(r"\b[A-Z][A-Z_]{2,}\b", FLOWS))
    assert {Kind.SEND, Kind.REPLY, Kind.ASK, Kind.ANSWER, Kind.BROADCAST, Kind.SPAWN, Kind.STOP} <= said
    assert {Kind.RECALL, Kind.QUERY, Kind.TRACE, Kind.TRACED, Kind.RPC} <= said
    assert {Kind.INJECTED, Kind.FAILED, Kind.NO_WAITER, Kind.TOO_LATE, Kind.ABANDONED, Kind.OUTCOME} <= said


def test_no_departure_is_told_twice() -> None:
    page = (ROOT / "docs" / "departures.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.endswith(" | why |")]
    assert len(rows) > 30
    assert [row for row in set(rows) if rows.count(row) > 1] == [], "a merge left them; each belongs into one section"


def test_the_wire_page_has_every_field_and_every_reason_in_its_order() -> None:
    page = (ROOT / "docs" / "wire.md").read_text(encoding="utf-8")
    fields, judged = page.split("## Fields")[1].split("## A gid")[0], page.split("## Judged")[1]
    first = [line.split("|")[1] for line in fields.splitlines() if line.startswith("| `")]
    assert {word for cell in first for word in re.findall(r"`(\w+)`", cell)} == {"v", *_every_field()}
    assert tuple(re.findall(r"^\| `([\w-]+)`", judged, re.MULTILINE)) == REFUSAL_REASONS


def _every_field() -> set[str]:
    """As they are called on the wire."""
    attributes = {*Envelope.__struct_fields__} - {"extra"}
    wire = {"sender": "from", "sender_salt": "fromSalt"}
    return {wire.get(name) or re.sub(r"_(\w)", lambda found: found[1].upper(), name) for name in attributes}
