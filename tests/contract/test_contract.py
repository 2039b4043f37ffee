"""The model is RabbitMQ: each scenario gives the transcript that RabbitMQ gave when it was recorded.

`FLEETTRIO_RECORD=1` with the lane `fast` records anew; what changed is then a diff to look at.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import trio

from fleettrio.testing.broker_node import BrokerNode
from tests.contract.lanes import Lane, RabbitLane
from tests.contract.scenarios import confirms, deaths, deliveries, ends, locks, logins, routes
from tests.contract.stage import Line, Scenario
from tests.lanes import LANES

TRANSCRIPTS = Path(__file__).parent / "transcripts"
PARTS: tuple[ModuleType, ...] = (confirms, deaths, deliveries, ends, locks, routes)
BROKER_ALONE: tuple[ModuleType, ...] = (logins,)
"""What the model leaves out."""
TRIES = 3
IS_RECORDING = bool(os.environ.get("FLEETTRIO_RECORD"))


def scenarios(parts: tuple[ModuleType, ...]) -> Iterator[tuple[str, str, Scenario]]:
    for part in parts:
        name = part.__name__.rpartition(".")[2]
        for title, scenario in vars(part).items():
            if inspect.iscoroutinefunction(scenario) and scenario.__module__ == part.__name__ and title[0] != "_":
                yield name, title, scenario


ALL = list(scenarios(PARTS))
LOGINS = list(scenarios(BROKER_ALONE))


def recorded(part: str) -> dict[str, list[Line]]:
    file = TRANSCRIPTS / f"{part}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def record(part: str, title: str, transcript: list[Line]) -> None:
    known = {**recorded(part), title: transcript}
    titles = [each for name, each, _ in (*ALL, *LOGINS) if name == part]
    lines = [
        f" {json.dumps(each)}: [\n" + ",\n".join(f"  {json.dumps(line)}" for line in known[each]) + "\n ]"
        for each in titles
        if each in known
    ]
    TRANSCRIPTS.mkdir(exist_ok=True)
    (TRANSCRIPTS / f"{part}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


@pytest.mark.parametrize(("part", "title", "scenario"), ALL, ids=[title for _, title, _ in ALL])
def test_the_transcript_is_rabbitmqs(lane: Lane, part: str, title: str, scenario: Scenario) -> None:
    compare(lane, part, title, scenario)


@pytest.mark.parametrize("lane_name", LANES)
@pytest.mark.parametrize(("part", "title", "scenario"), LOGINS, ids=[title for _, title, _ in LOGINS])
def test_on_the_broker_alone_because_the_model_knows_no_logins(
    broker: BrokerNode, vhost: str, lane_name: str, part: str, title: str, scenario: Scenario
) -> None:
    lane = RabbitLane(broker, vhost, lane_name)
    lane.add_logins("alpha", "beta", reporter="alpha")
    compare(lane, part, title, scenario)


def compare(lane: Lane, part: str, title: str, scenario: Scenario) -> None:
    """Played again, and more slowly, where it differs: some messages live for a second, too short on a busy machine."""
    for again in range(TRIES):
        transcript = played(lane, scenario, is_last=IS_RECORDING or again == TRIES - 1)
        if IS_RECORDING and lane.name == "fast":
            record(part, title, transcript)
        if transcript == recorded(part)[title]:
            break
        lane = lane.patient()
    assert transcript == recorded(part)[title]


def played(lane: Lane, scenario: Scenario, *, is_last: bool) -> list[Line]:
    """Its transcript; an empty one where something that it waits for did not come, or came and went too quickly."""
    try:
        transcript: list[Line] = json.loads(json.dumps(lane.play(scenario)))
    except (trio.TooSlowError, ExceptionGroup) as late:
        if is_last or (isinstance(late, ExceptionGroup) and late.split(trio.TooSlowError)[1]):
            raise
        return []
    return transcript


def test_there_are_enough_scenarios_and_no_stale_transcript() -> None:
    assert len(ALL) >= 40
    told = {(part, title) for part, title, _ in (*ALL, *LOGINS)}
    assert {(file.stem, title) for file in TRANSCRIPTS.iterdir() for title in recorded(file.stem)} == told
