"""The loops of the compiled implementation stay in C, as `cython -a` sees them."""

from __future__ import annotations

import html
import pathlib
import re
import subprocess
import sys

import fleettrio

SOURCE = pathlib.Path(fleettrio.__file__).with_name("_fast.pyx")


def test_no_loop_calls_into_python(tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "_fast.pyx"
    # In one piece: the compiler annotates no file that another one includes.
    whole = re.sub(
        r'^include "(.*)"$', lambda part: (SOURCE.parent / part[1]).read_text(), SOURCE.read_text(), flags=re.MULTILINE
    )
    copy.write_text(whole)
    subprocess.run([sys.executable, "-m", "cython", "-a", str(copy)], check=True, capture_output=True)
    # `cython -a` gives each line a score: how much of Python's own machinery its C code calls.
    page = copy.with_suffix(".html").read_text()
    found = re.findall(r'<pre class="cython line score-(\d+)"[^>]*>.*?(\d+)</span>: (.*?)</pre>', page)
    scores = {int(number): (int(score), html.unescape(re.sub("<[^>]+>", "", text))) for score, number, text in found}
    inside: list[int] = []
    for number, line in enumerate(copy.read_text().splitlines(), start=1):
        indent = len(line) - len(line.lstrip())
        inside = [outer for outer in inside if not line.strip() or indent > outer]
        if re.match(r"\s+(for|while) .*:$", line):
            inside.append(indent)
        if inside:
            assert scores.get(number, (0, ""))[0] == 0, f"line {number}: {scores[number][1]}"
    assert len(scores) > 200
