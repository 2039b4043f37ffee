"""Says at the end of the tests how many seeds each fault struck, and which seed found each mutant."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.faults import KINDS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    struck: Counter[str] = Counter()
    runs = 0
    mutants = []
    for report in (r for reports in terminalreporter.stats.values() for r in reports):
        properties = dict(getattr(report, "user_properties", ()))
        if "mutant" in properties and report.when == "call":
            mutants.append(properties["mutant"])
        if "struck" in properties and report.when == "call":
            struck.update(properties["struck"])
            runs += properties["runs"]
    if runs:
        terminalreporter.section(f"faults of the simulation, in {runs} seeds")
        for kind in KINDS:
            terminalreporter.line(f"{struck[kind]:6}  {kind}")
    if mutants:
        terminalreporter.section("mutants, and the seed and promise that found each")
        for line in mutants:
            terminalreporter.line(line)
