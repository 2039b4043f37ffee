"""pytest plugin of the full run (`make test`): tests per layer, and no layer may be silent.

A layer is a folder below `tests`. The run fails when one of them ran nothing, and when a test was skipped that is not
on the list below: a test that did not run has shown nothing, and nobody reads the lines that say so.

Which tests failed goes to the file that FLEETTRIO_FAILED names, a line each, for `scripts/test.sh`; none where the run
itself was not whole, for which there is no second try.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

__all__ = ("Layers", "pytest_configure")

TESTS = Path(__file__).resolve().parent.parent
MAY_SKIP: frozenset[str] = frozenset()
"""Ids of tests that may be skipped on this system. Empty where it counts: as root on Linux, which is what CI is."""
if sys.platform != "linux" or os.geteuid() != 0:
    MAY_SKIP |= {  # they mount a small disk
        "tests/store/test_store_file.py::test_a_full_disk_is_told_and_gets_over",
        "tests/surfaces/test_obstacles.py::test_a_full_disk_fails_sends_loudly_and_gets_over",
    }
if sys.platform != "linux":
    MAY_SKIP |= {"tests/store/test_store_file.py::test_filesystem_of"}  # reads Linux's table of mounts
IS_PURE = os.environ.get("FLEETTRIO_EXPECT") == "pure"
FAILED = os.environ.get("FLEETTRIO_FAILED", "")
NO_CASES = "[NOTSET]"
"""How pytest names a test without a single case: one over the compiled twin, where that was left out on purpose."""


class Layers:
    """Counts what ran, by layer."""

    def __init__(self, asked: Iterable[Path], ignored: Iterable[Path]) -> None:
        self.ran: Counter[str] = Counter()
        self.skipped: list[str] = []
        self.failed: dict[str, None] = {}
        layers = {file.relative_to(TESTS).parts[0] for file in TESTS.glob("*/**/test_*.py")}
        self.expected = {
            layer
            for layer in layers
            if any((TESTS / layer).is_relative_to(path) for path in asked)
            and not any((TESTS / layer).is_relative_to(path) for path in ignored)
        }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        layer = Path(report.nodeid.split("::", 1)[0]).parts[1]
        if report.failed:
            self.failed[report.nodeid] = None
        if report.skipped:
            if report.nodeid not in MAY_SKIP and not (IS_PURE and report.nodeid.endswith(NO_CASES)):
                self.skipped.append(report.nodeid)
        elif report.when == "call":
            self.ran[layer] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped.append(report.nodeid)

    @property
    def silent(self) -> list[str]:
        return sorted(layer for layer in self.expected if not self.ran[layer])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (self.silent or self.skipped) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if FAILED and not (self.silent or self.skipped):
            Path(FAILED).write_text("".join(f"{nodeid}\n" for nodeid in self.failed))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("tests per layer")
        for layer in sorted(self.expected | set(self.ran)):
            terminalreporter.line(f"{self.ran[layer]:6}  {layer}")
        for layer in self.silent:
            terminalreporter.line(f"FAILED: layer {layer} ran no test", red=True)
        for nodeid in self.skipped:
            terminalreporter.line(f"FAILED: skipped, and nothing may be: {nodeid}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return  # one of several processes; the one that started them hears of every test and counts
    asked = [Path(config.invocation_params.dir, argument).resolve() for argument in config.args]
    ignored = [Path(config.invocation_params.dir, path).resolve() for path in config.getoption("ignore") or ()]
    config.pluginmanager.register(Layers(asked, ignored), "fleettrio-layers")
