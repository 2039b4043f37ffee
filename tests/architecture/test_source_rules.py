"""The rules of the house, read out of the source: each says what it guards, and a named list holds the exceptions."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, ROOT, called, imported, package, parsed

NURSERY_OWNERS = {"daemon.py", "session.py", "api/rpc.py", "broker/amqp.py"}
BORDER = {"broker/amqp.py", "broker/libraries.py", "broker/stocklane.py", "broker/streams.py"}
BORDER_LIBRARIES = {"asyncio", "trio_asyncio", "aio_pika", "aiormq", "pamqp"}
APART = ("bench/", "demo/", "testing/")
"""They use the rest as a person would, and own their tasks themselves."""
LONGEST = 400
"""Lines. Longer than 300, a file should be looked at for a second noun."""
BOUNDARIES = {
    "api/talk.py": "the handling of one request: whatever breaks in it is told, answered, and costs that one",
    "tasks/consume.py": "the handling of one delivery: whatever breaks in it is told and costs that one",
}
"""File → why it may catch what nobody foresaw, once."""
WAITS = ("wait", "until", "eventually", "poll")
"""A function with such a name may sleep between two looks at a condition; nothing else in the tests may sleep."""


def test_layers_and_borders_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nurseries_open_only_where_tasks_are_owned() -> None:
    owners = {name for name, tree in package().items() if any(called(tree, "open_nursery"))}
    assert {name for name in owners if not name.startswith(APART)} <= NURSERY_OWNERS


def test_no_nursery_leaves_its_owners_file() -> None:
    strangers = {name for name in package() if name not in NURSERY_OWNERS and not name.startswith(APART)}
    assert [name for name in strangers if "Nursery" in ast.unparse(package()[name])] == []


def test_only_the_border_knows_asyncio_and_the_amqp_libraries() -> None:
    knowing = {
        name
        for name, tree in package().items()
        if any(module.split(".")[0] in BORDER_LIBRARIES for module in imported(tree))
    }
    assert knowing == BORDER


def test_the_model_broker_itself_has_no_tasks_and_no_clock() -> None:
    model = {name: set(imported(tree)) for name, tree in package().items() if name.startswith("broker/model/")}
    assert model
    assert {name for name, modules in model.items() if modules & {"trio", "time", "random"}} == set()


def test_only_the_chooser_knows_the_compiled_twin() -> None:
    assert {name for name, tree in package().items() if "fleettrio._fast" in set(imported(tree))} <= {"_accel.py"}


def test_no_fault_is_swallowed_whole() -> None:
    broad = [
        f"{name}:{node.lineno}"
        for name, tree in package().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}))
        and not any(isinstance(inside, ast.Raise) for inside in ast.walk(node))
    ]
    assert [place.partition(":")[0] for place in broad] == list(BOUNDARIES)


def test_every_memory_channel_is_bounded() -> None:
    unbounded = [
        name
        for name, tree in package().items()
        for call in called(tree, "open_memory_channel")
        if "inf" in ast.unparse(call)
    ]
    assert unbounded == []


def test_tests_wait_for_conditions_and_never_for_time() -> None:
    sleeping = []
    for name, tree in parsed(ROOT / "tests").items():
        patient = {
            id(call)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            and function.name.lstrip("_").startswith(WAITS)
            for call in called(function, "sleep")
        }
        sleeping += [f"{name}:{call.lineno}" for call in called(tree, "sleep") if id(call) not in patient]
    assert sleeping == []


def test_files_stay_small_enough_to_read() -> None:
    lengths = {name: len((PACKAGE / name).read_text(encoding="utf-8").splitlines()) for name in package()}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [name for name, tree in package().items() if tree.body and not ast.get_docstring(tree)]
    assert silent == []


@pytest.mark.parametrize("word", ["TODO", "FIXME", "XXX", "NotImplementedError"])
def test_nothing_is_left_half_done(word: str) -> None:
    assert [name for name in package() if word in (PACKAGE / name).read_text(encoding="utf-8")] == []
