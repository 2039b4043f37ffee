"""A program that stays and takes a message a line: `python -m fleettrio.testing.agents.talker --log FILE [options]`.

It speaks `lines` or, with `--stream-json`, as `claude -p --input-format stream-json` does (`fleettrio.local.dialects`).
Each turn is answered with `--answer`, at once or, with `--hold`, when SIGUSR2 comes. With `--deaf` it reads nothing.

The log has one JSON object a line: `{"event": …}` with `begun` (`pid`), `turn` (`text`) and `over`.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys


def text_of(message: dict[str, object], *, is_claude: bool) -> str:
    """The text of a message as it came."""
    if not is_claude:
        return str(message["text"])
    inner = message["message"]
    assert isinstance(inner, dict)
    return "".join(part["text"] for part in inner["content"])


def main() -> None:
    parser = argparse.ArgumentParser(description="a program that takes a message a line, and stands in for an agent")
    parser.add_argument("--log", required=True, help="file for the events, one JSON object a line")
    parser.add_argument("--answer", default="done", help="its last words of each turn")
    parser.add_argument("--stream-json", action="store_true", help="speak as Claude Code does")
    parser.add_argument("--hold", action="store_true", help="a turn lasts until SIGUSR2")
    parser.add_argument("--deaf", action="store_true", help="read nothing")
    parser.add_argument("--fail", action="store_true", help="every turn ends in an error")
    options = parser.parse_args()
    wake, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    signal.set_wakeup_fd(wake_in)
    signal.signal(signal.SIGUSR2, lambda *_: None)

    def note(event: str, **fields: object) -> None:
        with open(options.log, "ab") as log:
            log.write(json.dumps({"event": event, **fields}).encode() + b"\n")

    def tell(message: dict[str, object]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def finish() -> None:
        note("over")
        words = {"result": options.answer, "is_error": options.fail, "subtype": "success", "session_id": "s-1"}
        plain = {"text": options.answer, "error": options.fail}
        tell({"type": "result", **(words if options.stream_json else plain)})

    print("a line that is not a message")
    note("begun", pid=os.getpid())
    pending, is_busy = b"", False
    while True:
        ready, _, _ = select.select([wake] if options.deaf else [0, wake], [], [])
        if wake in ready:
            os.read(wake, 64)
            if is_busy:
                is_busy = False
                finish()
        if 0 in ready:
            data = os.read(0, 65_536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                note("turn", text=text_of(json.loads(line), is_claude=options.stream_json))
                tell({"type": "system", "subtype": "init"} if options.stream_json else {"type": "began"})
                is_busy = options.hold
                if not is_busy:
                    finish()


if __name__ == "__main__":
    main()
