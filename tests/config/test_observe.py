"""The log never shows a secret; fail points end the process in the window they name; the clock can be shifted."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleettrio.clock import SystemClock
from fleettrio.config import LogSection
from fleettrio.errors import ConfigError
from fleettrio.observe import FAILPOINT_EXIT, Counters, about, get_logger, set_up_log


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_every_line_inside_about_carries_the_ids() -> None:
    stream = io.StringIO()
    set_up_log(LogSection(format="json"), stream)
    log = get_logger("consume")
    with about(trace_id="t1", msg_id="m1"):
        log.info("refused", reason="signature")
    log.info("after")
    first, second = lines(stream)
    assert (first["trace_id"], first["msg_id"], first["part"], first["reason"]) == ("t1", "m1", "consume", "signature")
    assert "trace_id" not in second


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_body_or_a_url_never_reaches_the_log(style: str) -> None:
    stream = io.StringIO()
    set_up_log(LogSection(format="json" if style == "json" else "console"), stream)
    get_logger("x").warning("oops", body="hunter2", url="amqp://u:hunter2@h", token="hunter2")
    assert "hunter2" not in stream.getvalue()
    assert "oops" in stream.getvalue()


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_traceback_shows_no_values_of_variables(style: str) -> None:
    stream = io.StringIO()
    set_up_log(LogSection(format="json" if style == "json" else "console"), stream)
    body = "hunter2"
    try:
        raise ValueError(len(body))
    except ValueError:
        get_logger("x").exception("internal error")
    assert "ValueError: 7" in stream.getvalue()
    assert "hunter2" not in stream.getvalue().replace('body = "hunter2"', "")


def test_the_level_is_kept_and_a_stream_that_is_no_terminal_gets_json() -> None:
    stream = io.StringIO()
    set_up_log(LogSection(level="warning"), stream)
    get_logger("x").info("quiet")
    get_logger("x").error("loud")
    (line,) = lines(stream)
    assert (line["event"], line["level"]) == ("loud", "error")


def test_the_log_goes_to_the_file_named(tmp_path: Path) -> None:
    target = set_up_log(LogSection(file=str(tmp_path / "log"), format="json"))
    get_logger("x").info("here")
    target.close()
    assert json.loads((tmp_path / "log").read_text())["event"] == "here"


def test_counters_count_by_label() -> None:
    counters = Counters()
    counters.count("refused", "signature")
    counters.count("refused", "signature", 2)
    counters.count("refused", "expired")
    assert counters.labels("refused") == {"expired": 1, "signature": 3}
    assert counters.value("refused", "conflict") == 0


PASSES = "from fleettrio.observe import failpoint\nfor n in range(4): print(n, flush=True); failpoint('there')\n"


@pytest.mark.parametrize(("value", "survived"), [("there", "0"), ("there:3", "2"), ("elsewhere", "3"), ("", "3")])
def test_a_fail_point_ends_the_process_at_the_pass_it_names(value: str, survived: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PASSES],
        env={**os.environ, "FLEETTRIO_FAILPOINT": value},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.stdout.split()[-1] == survived
    if value.startswith("there"):
        assert done.returncode == FAILPOINT_EXIT
        assert done.stderr == "failpoint there: the process ends here\n"
    else:
        assert done.returncode == 0


async def test_the_wall_clock_can_be_shifted_and_the_other_not() -> None:
    true, shifted = SystemClock({}).now(), SystemClock({"FLEETTRIO_CLOCK_OFFSET_MS": "-120000"}).now()
    assert 119_000 < true.wall - shifted.wall < 121_000
    assert abs(true.mono - shifted.mono) < 1


def test_a_shift_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError):
        SystemClock({"FLEETTRIO_CLOCK_OFFSET_MS": "soon"})
