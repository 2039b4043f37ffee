"""What is known of a program that agents run in, read from `harness/<name>.toml`: transports are code, harnesses data.

A reading of a screen follows one order: a dialog beats everything (Enter would answer it), then signs of work, then the
composer. A screen without any of them is unknown, and nothing is typed into the unknown. The pane's title and the
screen beneath it are told apart, for whoever weighs them against what else is known of the agent.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from fleettrio.errors import ConfigError
from fleettrio.home import resolve_paths
from fleettrio.local.port import AgentState, NotReady
from fleettrio.panes.terminal import EnterForm, Screen

__all__ = (
    "Harness",
    "Reading",
    "harness_names",
    "harness_of",
    "load_harness",
    "not_ready",
    "parse_harness",
    "read_screen",
)

FALLBACK = "line"
"""For programs nobody described: no bracketed paste, so they get one typed line, never a message."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_LINES_ONLY = re.compile(r"[\s\u2500-\u259f]+")
"""Box drawing and blanks: a border beside or below the input, nothing that anybody typed."""

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=120)]


class _File(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A harness file as it is written."""

    about: str
    composer: str
    programs: list[str] = []
    stream: Literal["lines", "stream-json"] = "lines"
    bracketed_paste: bool = False
    composer_is_last_line: bool = False
    draft_ornament: str = ""
    placeholder: list[str] = []
    pasted: list[str] = []
    busy: list[str] = []
    dialog: list[str] = []
    busy_title: str = ""
    idle_title: str = ""
    dialog_title: str = ""
    tail: Annotated[int, msgspec.Meta(ge=1, le=200)] = 24
    enter: EnterForm = "Enter"
    output_is_evidence: bool = False
    max_bytes: Annotated[int, msgspec.Meta(ge=256)] = 1_048_576
    settle_s: _Seconds = 0.3
    echo_s: _Seconds = 5.0
    turn_s: _Seconds = 10.0


class Harness(msgspec.Struct, frozen=True, kw_only=True):
    """One program, as far as a delivery needs to know it. All times are bounds or waits in seconds."""

    name: str
    about: str
    programs: frozenset[str]
    """Names of its program's file, by which one that runs already is recognised."""
    stream: str
    """What it speaks when it stays and is fed a line for each message (`local.dialects`)."""
    bracketed_paste: bool
    """False: it gets `Text.notice`, because a paste would arrive as loose lines."""
    composer: re.Pattern[str]
    """Matches the input line; the last match on the screen counts. Group `draft` is what is half typed in it."""
    composer_is_last_line: bool
    """The input line is the last line with text, while the cursor stands behind something; nothing else is."""
    draft_ornament: str
    """Characters of the composer's border that may stand in the group."""
    placeholder: re.Pattern[str] | None
    """Texts the program itself shows in an empty composer."""
    pasted: re.Pattern[str] | None
    """What the program shows in the composer in place of a paste."""
    busy: re.Pattern[str] | None
    dialog: re.Pattern[str] | None
    busy_title: re.Pattern[str] | None
    idle_title: re.Pattern[str] | None
    """Titles under which it does not work; a dialog may be open all the same."""
    dialog_title: re.Pattern[str] | None
    tail: int
    """How many lines at the end of the screen are read for `busy` and `dialog`."""
    enter: EnterForm
    """The form tried first; the other one is tried once."""
    output_is_evidence: bool
    """Any new line of text after Enter shows that a turn began (programs that do not say when they work)."""
    max_bytes: int
    """A longer text is announced by the notice instead."""
    settle_s: float
    """Wait between the echo of a paste and Enter: some programs take an Enter at once for part of the paste."""
    echo_s: float
    turn_s: float


class Reading(msgspec.Struct, frozen=True):
    """What a pane says. `draft` is None when no composer is to be seen."""

    title: AgentState
    """By the title alone; `unknown` where the harness says nothing there."""
    screen: AgentState
    """By the screen alone."""
    draft: str | None

    @property
    def state(self) -> AgentState:
        """By both: a dialog or work that either of them shows is there."""
        for state in (AgentState.BLOCKED, AgentState.WORKING):
            if state in (self.title, self.screen):
                return state
        return self.screen


def harness_names() -> tuple[str, ...]:
    """The harnesses that are known: those that are shipped, and the person's own."""
    folders = (resources.files("fleettrio.local") / "harness", _own_folder())
    files = [file.name for folder in folders if folder.is_dir() for file in folder.iterdir()]
    names = {name.removesuffix(".toml") for name in files if name.endswith(".toml")}
    return tuple(sorted(name for name in names if _NAME.fullmatch(name)))


def _own_folder() -> Path:
    return resolve_paths(os.environ).harness_dir


def load_harness(name: str) -> Harness:
    """The harness `name`, for "" the one for unknown programs. Raises `ConfigError` for a name that no file has, and
    for a file with a mistake."""
    name = name or FALLBACK
    if name not in harness_names():
        raise ConfigError([f"no harness {name!r}"], hint=f"known ones: {', '.join(harness_names())}")
    own = _own_folder() / f"{name}.toml"
    if not own.exists():
        return _load_shipped(name)
    try:
        facts = own.stat()
        return _load_own(own, (facts.st_mtime_ns, facts.st_size))
    except OSError as error:
        raise ConfigError([f"harness {name}: {own} cannot be read: {error.strerror}"]) from error


@functools.cache
def _load_shipped(name: str) -> Harness:
    file = resources.files("fleettrio.local") / "harness" / f"{name}.toml"
    return parse_harness(name, file.read_bytes())


@functools.lru_cache(maxsize=64)
def _load_own(file: Path, as_of: tuple[int, int]) -> Harness:  # noqa: ARG001 - part of what the answer is kept for
    """Read anew when the file has changed. Raises `ConfigError`, which names the file, and `OSError`."""
    try:
        return parse_harness(file.stem, file.read_bytes())
    except ConfigError as error:
        raise ConfigError(error.problems, hint=f"mend {file}, then attach the agent again") from error


def harness_of(words: Iterable[str]) -> str:
    """The harness whose program has one of these names; empty for none. A file with a mistake is nobody's."""
    known: dict[str, str] = {}
    for name in harness_names():
        with contextlib.suppress(ConfigError):
            known |= dict.fromkeys(load_harness(name).programs, name)
    return next((known[word] for word in words if word in known), "")


def parse_harness(name: str, data: bytes) -> Harness:
    """A harness out of TOML. Raises `ConfigError` that names the file's key and what is wrong with it."""
    try:
        file = msgspec.toml.decode(data, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"harness {name}: {error}"]) from error
    composer = _compile(name, "composer", [file.composer])
    if composer is None or "draft" not in composer.groupindex:
        raise ConfigError([f"harness {name}: composer has no group (?P<draft>…)"])
    return Harness(
        name=name,
        about=file.about,
        programs=frozenset(file.programs),
        stream=file.stream,
        bracketed_paste=file.bracketed_paste,
        composer=composer,
        composer_is_last_line=file.composer_is_last_line,
        draft_ornament=file.draft_ornament,
        placeholder=_compile(name, "placeholder", file.placeholder),
        pasted=_compile(name, "pasted", file.pasted),
        busy=_compile(name, "busy", file.busy),
        dialog=_compile(name, "dialog", file.dialog),
        busy_title=_compile(name, "busy_title", [file.busy_title] if file.busy_title else []),
        idle_title=_compile(name, "idle_title", [file.idle_title] if file.idle_title else []),
        dialog_title=_compile(name, "dialog_title", [file.dialog_title] if file.dialog_title else []),
        tail=file.tail,
        enter=file.enter,
        output_is_evidence=file.output_is_evidence,
        max_bytes=file.max_bytes,
        settle_s=file.settle_s,
        echo_s=file.echo_s,
        turn_s=file.turn_s,
    )


def read_screen(harness: Harness, screen: Screen) -> Reading:
    """What the agent is doing and what is half typed, as far as its screen and title tell."""
    draft = _draft(harness, screen)
    tail = "\n".join(_shown(screen.lines)[-harness.tail :])
    seen = AgentState.UNKNOWN if draft is None else AgentState.IDLE
    return Reading(
        _judged(screen.facts.title, harness.dialog_title, harness.busy_title, _title_at_rest(harness, screen)),
        _judged(tail, harness.dialog, harness.busy, seen),
        draft,
    )


def not_ready(state: AgentState, draft: str | None, when: str) -> NotReady | None:
    """Why nothing may be typed with `when` into what shows this; None when it may."""
    if state is AgentState.BLOCKED:
        return NotReady(state, "it is at a dialog or a permission prompt")
    if state is AgentState.WORKING and when != "now":
        return NotReady(state, "it is working")
    if draft is None:
        return NotReady(state, "its composer is not on the screen")
    return NotReady(state, "a draft is in its composer") if draft else None


def _judged(
    text: str, dialog: re.Pattern[str] | None, busy: re.Pattern[str] | None, otherwise: AgentState
) -> AgentState:
    if _found(dialog, text):
        return AgentState.BLOCKED
    return AgentState.WORKING if _found(busy, text) else otherwise


def _title_at_rest(harness: Harness, screen: Screen) -> AgentState:
    return AgentState.IDLE if _found(harness.idle_title, screen.facts.title) else AgentState.UNKNOWN


def _draft(harness: Harness, screen: Screen) -> str | None:
    lines = _shown(screen.lines)
    if harness.composer_is_last_line:
        lines = lines[-1:] if screen.facts.cursor_x else ()
    text = "\n".join(lines)
    matches = collections.deque(harness.composer.finditer(text), maxlen=1)
    if not matches:
        return None
    last = matches[0]
    draft = (last["draft"] or "").strip(harness.draft_ornament + " \t\n\xa0")
    if _LINES_ONLY.fullmatch(draft):
        return ""
    if harness.placeholder is not None and harness.placeholder.fullmatch(draft):
        return ""
    return draft


def _shown(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Without the empty lines at the end of the screen."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


def _found(pattern: re.Pattern[str] | None, text: str) -> bool:
    return pattern is not None and pattern.search(text) is not None


def _compile(name: str, key: str, patterns: list[str]) -> re.Pattern[str] | None:
    """One pattern out of alternatives; `^` and `$` are the ends of lines."""
    if not patterns:
        return None
    try:
        for pattern in patterns:
            re.compile(pattern, re.MULTILINE)
        return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.MULTILINE)
    except re.error as error:
        raise ConfigError([f"harness {name}: {key} is not a regular expression: {error}"]) from error
