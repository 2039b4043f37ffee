"""What is written down equals what is there: error tree, commands, targets, dependencies, change notes."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator

import click
import pytest

from fleettrio import __version__, core, errors
from fleettrio.clients.cli.main import cli
from tests.architecture.sources import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
AGENTS = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its full name, groups too."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


COMMANDS = dict(commands(cli))


def drawn_tree() -> dict[str, str]:
    """Error → its parent, as the docstring of `errors` draws it."""
    parents: list[str] = []
    tree = {}
    for line in (inspect.getdoc(errors) or "").splitlines()[2:]:
        found = re.match(r"^\s*([│├└─ ]*)([A-Z]\w+)", line)
        if found is None:
            continue
        depth = len(found.group(1)) // 4
        parents[depth:] = [found.group(2)]
        if depth:
            tree[found.group(2)] = parents[depth - 1]
    return tree


def test_the_map_of_the_core_has_its_files_and_no_others() -> None:
    drawn = set(re.findall(r"`(\w+)`", inspect.getdoc(core) or ""))
    files = {file.stem for file in (ROOT / "src" / "fleettrio" / "core").glob("*.py")} - {"__init__"}
    assert (files - drawn, drawn - files) == (set(), set())


def test_the_error_tree_is_drawn_as_it_is() -> None:
    classes = {
        name: value.__mro__[1].__name__
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.FleetTrioError) and value is not errors.FleetTrioError
    }
    assert drawn_tree() == classes


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_an_example(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help
    assert "Example" in (command.epilog or "")
    assert "fleettrio " in (command.epilog or "")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_example_names_commands_that_exist(path: tuple[str, ...]) -> None:
    for line in (COMMANDS[path].epilog or "").splitlines():
        for words in re.findall(r"\bfleettrio ((?:[a-z]+ ?)+)", line):
            first = words.split()[0]
            assert (first,) in COMMANDS, line


@pytest.mark.parametrize("name", ["README.md", "AGENTS.md"])
def test_the_documents_name_targets_and_commands_that_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert (
        set(re.findall(r"`make ([a-z-]+)", text)) | set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)) <= TARGETS
    )
    named = set(re.findall(r"(?:^|`)fleettrio ([a-z]+)", text, re.MULTILINE))
    assert {word for word in named if (word,) not in COMMANDS} == set()


def test_the_readme_lists_every_command() -> None:
    table = set(re.findall(r"^\| `([a-z]+(?: [a-z]+)?)", README, re.MULTILINE))
    leaves = {" ".join(path) for path, command in COMMANDS.items() if not isinstance(command, click.Group)}
    assert leaves - table == set()


def test_every_file_that_agents_md_points_at_exists() -> None:
    paths = re.findall(r"`((?:src|tests|docs|scripts|examples|newsfragments)/[\w./-]*)`", AGENTS)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def dependency_names(extra: str | None = None) -> set[str]:
    project = PROJECT["project"]
    wanted = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return {re.split(r"[<>=!~ ]", requirement)[0] for requirement in wanted}


def test_every_dependency_is_explained() -> None:
    explained = set(re.findall(r"^\| `([a-z0-9-]+)`", (ROOT / "docs/dependencies.md").read_text("utf-8"), re.MULTILINE))
    assert explained == dependency_names() | {
        name for extra in ("build", "test", "check") for name in dependency_names(extra)
    }


def test_the_lock_pins_every_dependency_by_hash_and_names_no_place() -> None:
    pinned = set(re.findall(r"^([a-z0-9-]+)==", LOCK, re.MULTILINE))
    for extra in (None, "build", "test", "check"):
        assert dependency_names(extra) <= pinned
    assert LOCK.count("--hash=sha256:") > len(pinned)
    assert re.search(r"https?:|file:|--index|--find-links", LOCK) is None


def test_the_version_is_written_once_too_often_but_the_same() -> None:
    assert PROJECT["project"]["version"] == __version__


def test_every_change_note_has_a_name_that_towncrier_takes() -> None:
    types = {entry["directory"] for entry in PROJECT["tool"]["towncrier"]["type"]}
    notes = [file.name for file in (ROOT / "newsfragments").iterdir() if file.name != "README.md"]
    assert [note for note in notes if not re.fullmatch(rf"(\d+|\+[\w-]+)\.({'|'.join(types)})(\.\d+)?\.md", note)] == []
