"""The example bodies cover what really is sent, and they are found by an installed package."""

from __future__ import annotations

import re
import tomllib

from fleettrio.demo.examples import examples
from tests.architecture.sources import ROOT


def test_there_are_enough_of_them_and_all_differ() -> None:
    bodies = [example.body for example in examples()]
    assert len(bodies) >= 12
    assert len(set(bodies)) == len(bodies)


def test_they_hold_what_breaks_careless_paths() -> None:
    texts = {example.name: example.body.decode() for example in examples()}
    wanted = {
        "a heading": r"\A# ",
        "a fence": r"(?m)^```\w+$",
        "a numbered list": r"(?m)^1\. .*\n",
        "a diff": r"(?m)^diff --git ",
        "Chinese": "[\u4e00-\u9fff]{4}",
        "Japanese": "[\u3040-\u30ff]{3}",
        "right to left": "[\u0600-\u06ff]{3}",
        "emoji with joiners": "[\U0001f300-\U0001faff]\u200d",
        "a log": r"Traceback \(most recent call last\)",
        "JSON": r"\A\{\n",
        "a table": r"(?m)^\|.*\|$",
        "CRLF": "\r\n",
        "a `;` at the very end": r";\Z",
        "one line": r"\A[^\n]+\n?\Z",
        "words a shell would take": r"\$\(.*\)",
        "tabs": "\t",
        "more lines than a screen has": r"\A(?:[^\n]*\n){40}",
    }
    missing = [what for what, pattern in wanted.items() if not any(re.search(pattern, t) for t in texts.values())]
    assert missing == []


def test_the_examples_folder_and_the_package_hold_the_same_files() -> None:
    shown = {file.name: file.read_bytes() for file in (ROOT / "examples" / "messages").iterdir()}
    assert shown == {example.name: example.body for example in examples()}


def test_the_package_data_names_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "messages/*" in project["tool"]["setuptools"]["package-data"]["fleettrio.demo"]
