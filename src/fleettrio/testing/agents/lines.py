"""A program that reads lines, as the terminal collects them: `python -m fleettrio.testing.agents.lines --log FILE`.

It never touches the terminal's mode, so the kernel holds the line buffer (canonical mode) and knows no paste. The log
has the same form as the composer's: `begun`, then a `turn` for each line; FILE.raw has every byte.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

PROMPT = "> "


def main() -> None:
    parser = argparse.ArgumentParser(description="a program that reads lines and stands in for an agent")
    parser.add_argument("--log", required=True, help="file for the events, one JSON object a line")
    options = parser.parse_args()
    with open(options.log, "a", buffering=1) as log, open(f"{options.log}.raw", "ab", buffering=0) as raw:
        log.write(json.dumps({"event": "begun", "pid": os.getpid()}) + "\n")
        said = "stand-in agent that reads lines"
        while True:
            # In one write: who sees the line sees the prompt.
            sys.stdout.write(f"{said}\n{PROMPT}")
            sys.stdout.flush()
            data = os.read(0, 65_536)
            if not data:
                return
            raw.write(data)
            text = data.decode("utf-8", "surrogateescape").rstrip("\n")
            log.write(json.dumps({"event": "turn", "text": text}) + "\n")
            said = f"{len(data)} bytes taken"


if __name__ == "__main__":
    main()
