"""What the stand-in on `box` does with a brief: it reads the diff in it, and replies with what three rules find."""

from __future__ import annotations

import re
import subprocess
import sys

from fleettrio.testing.hosts import COMMAND

RULES = (
    (r"except\s*:", "this hides every error, also a Ctrl-C: name the one that is meant"),
    (r"def .*=\s*(\[\]|\{\})", "one and the same default for all calls: make it inside"),
    (r"==\s*None", "compare with `is None`"),
)


def review(diff: str) -> list[str]:
    found, name, number = [], "", 0
    for line in diff.splitlines():
        if line.startswith("+++ "):
            name = line.removeprefix("+++ ").removeprefix("b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)", line):
            number = int(hunk[1]) - 1
        elif line.startswith(("+", " ")):
            number += 1
            found += [
                f"{name}:{number}: {what}" for rule, what in RULES if line.startswith("+") and re.search(rule, line)
            ]
    return sorted(found, key=lambda text: "error" not in text)


def main() -> None:
    # By whatever way it came: pasted, or in the words of a hook around the frame.
    brief = re.search(r"\[fleettrio [0-9a-f]+\] end of ([0-9a-f]{8}) ", sys.stdin.read())
    if brief is None:
        return
    read = subprocess.run([*COMMAND, "show", brief[1], "--body"], capture_output=True, check=True)
    words = "\n".join(review(read.stdout.decode())) or "nothing found"
    subprocess.run([*COMMAND, "reply", brief[1], "-"], input=words.encode(), stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
