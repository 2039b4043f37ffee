"""The tutorial's page as a program: its blocks in the order of the page, and machines on which they are typed.

A block is preceded by a comment that says where it is run: `<!-- run: desk -->`. `, answer: y` answers the questions
that it asks; `, until: TEXT` types it again until it prints TEXT, where something must first get about. The block after
`<!-- prints -->` is what it prints: `…` alone in a line stands for any lines, and what is another each time (`CHANGES`)
need not be the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pty
import re
import select
import shlex
import signal
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from fleettrio.testing.hosts import COMMAND
from fleettrio.testing.waiting import HostTrouble

__all__ = ("Block", "Machine", "blocks", "fits", "stand_in")

BOUND_S = 300.0
_BLOCK = re.compile(r"^<!-- (run: [^>]+|prints) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGES = (
    (r"\b(?:[0-9a-f]{8}|[0-9a-f]{32})\b", "ID"),
    (r"\b\d\d:\d\d\b", "TIME"),
    (r"\bprocess \d+", "PROCESS"),
    (r"[+-]?\b[\d.]+ m?s\b", "SPAN"),
    (r"(?m)^  (?:[a-z]+ ){5}[a-z]+$", "WORDS"),
    (r"(?m)^  (?:[0-9a-f]{4} ){7}[0-9a-f]{4}$", "FINGERPRINT"),
    (r"%\d+", "PANE"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    machine: str
    script: str
    prints: str = ""
    answer: str = ""
    until: str = ""


def blocks(page: str) -> list[Block]:
    """In the order of the page."""
    found: list[Block] = []
    for head, text in _BLOCK.findall(page):
        if head == "prints":
            assert not found[-1].prints, text
            found[-1] = dataclasses.replace(found[-1], prints=text)
            continue
        words = dict(part.split(": ", 1) for part in head.split(", "))
        found.append(Block(words.pop("run"), text, **words))
    return found


def fits(shown: str, printed: str) -> bool:
    """Whether what was printed is what the page shows."""
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line == "…" else re.escape(line) + r"\n" for line in _always(shown).splitlines()
    )
    return re.fullmatch(pattern, _always(printed).rstrip("\n") + "\n") is not None


def _always(text: str) -> str:
    for what, word in CHANGES:
        text = re.sub(what, word, text)
    return text


class Machine:
    """A person's shell on a terminal of its own. A context manager."""

    def __init__(self, name: str, folder: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self.home = folder / name
        self.home.mkdir()
        self.bin = self.home / "bin"
        self.bin.mkdir()
        self.program("fleettrio", f'exec {shlex.join(COMMAND)} "$@"')
        # The way between the machines: `scp FILE MACHINE:` puts it into the other one's home folder.
        self.program("scp", f'[ "$1" = -q ] && shift; exec cp "$1" "{folder}/${{2%:}}/"')
        git = {f"GIT_{who}_{what}": "ann@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self.env = {
            **env,
            **git,
            "GIT_CONFIG_NOSYSTEM": "1",
            "HOME": str(self.home),
            "FLEETTRIO_HOME": str(self.home / "ft"),
            "PATH": f"{self.bin}{os.pathsep}{env['PATH']}",
            "PS1": "",
            "PS2": "",
            "TERM": "dumb",
            "COLUMNS": "80",
        }
        self._pid, self._terminal = 0, -1
        self._count = 0

    def program(self, name: str, script: str) -> None:
        """Put a program in front of the others."""
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        (self.bin / name).chmod(0o755)

    def __enter__(self) -> Self:
        self._pid, self._terminal = pty.fork()
        if not self._pid:
            os.chdir(self.home)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], self.env)  # noqa: S606
        termios.tcsetwinsize(self._terminal, (40, 80))
        self._type("stty -echo; set +m")
        self.run("true")
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)

    def run(self, script: str, answer: str = "") -> str:
        """Type a script and answer what it asks; what it prints. Raises `HostTrouble` when a command of it fails."""
        self._count += 1
        file, end = self.home / f".block-{self._count}", f"@end-{self._count}@"
        file.write_text(script, "utf-8")
        self._type(f'trap \'echo @fail""ed@\' ERR; . {file}; trap - ERR; echo {end[:4]}""{end[4:]}')
        printed = self._read(end, answer)
        if "@failed@" in printed:
            raise HostTrouble(f"{self.name}$ {script}\n{printed}")
        return printed

    def run_until(self, script: str, text: str, answer: str = "") -> str:
        """The same again and again, until it prints `text`."""
        deadline = time.monotonic() + BOUND_S
        while True:
            try:
                printed = self.run(script, answer)
            except HostTrouble as trouble:
                printed = str(trouble)
                if time.monotonic() > deadline:
                    raise
            else:
                if text in printed:
                    return printed
            if time.monotonic() > deadline:
                raise HostTrouble(f"{self.name}$ {script}\nnever printed {text!r}, but:\n{printed}")

    def _type(self, line: str) -> None:
        os.write(self._terminal, line.encode() + b"\n")

    def _read(self, end: str, answer: str) -> str:
        """Everything up to `end`, as a person sees it: without what a live line showed and wiped away."""
        data, deadline, answered = b"", time.monotonic() + BOUND_S, 0
        while f"{end}\r\n".encode() not in data:
            if time.monotonic() > deadline:
                raise HostTrouble(f"{self.name}: not over within {BOUND_S:g} s\n{data.decode('utf-8', 'replace')}")
            if select.select([self._terminal], [], [], 0.2)[0]:
                data += os.read(self._terminal, 65_536)
            if answer and data.count(b"[y/N]: ") > answered:
                answered += 1
                self._type(answer)
        text = data.decode("utf-8", "replace").partition(end)[0].replace("\r\n", "\n")
        text = re.sub(r"\[y/N\]: ", f"[y/N]: {answer}\n", text) if answer else text
        return re.sub(r"[^\n\r]*\r(?:\x1b\[[0-9;]*[A-Za-z])*", "", text)


def stand_in(machine: Machine, source: str, reviewer: Path) -> None:
    """A `claude` on this machine that stands in for the real one, and reviews."""
    on_turn = shlex.join([sys.executable, str(reviewer)])
    machine.program(
        "claude",
        '[ "$1" = --help ] && exec echo "  --settings"\n'
        f"export PYTHONPATH={source} STANDIN_OPTIONS={shlex.quote(f'--on-turn {shlex.quote(on_turn)}')}\n"
        f'exec {sys.executable} -m fleettrio.testing.agents.harness claude --log "{machine.home}/reviewer.jsonl" "$@"',
    )
