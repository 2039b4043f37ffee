"""Nothing that acts on a terminal or hides in a text passes the sanitiser, and nothing else is lost."""

from __future__ import annotations

import time
import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleettrio.local.sanitise import clean, one_line

if TYPE_CHECKING:
    from tests.local.conftest import Hostile

KEPT_CONTROLS = {"\t", "\n"}
REMOVED_RANGES = [
    (0x00, 0x08),
    (0x0B, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x180E, 0x180E),
    (0x200B, 0x200B),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE007F),
    (0xFDD0, 0xFDEF),
    *((plane << 16 | 0xFFFE, plane << 16 | 0xFFFF) for plane in range(17)),
]
REMOVED = frozenset(chr(code) for low, high in REMOVED_RANGES for code in range(low, high + 1))
JOINERS = frozenset(
    chr(code) for low, high in [(0x200C, 0x200F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF)] for code in range(low, high + 1)
)
TAGS = ("<system-reminder", "</system-reminder", "<task-notification", "<command-name", "<local-command-stdout")

nasty = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from([*sorted(REMOVED | JOINERS), "\r", "\n", "<", "&", "/", "|", "[", "·", "│"]),
    )
)
pieces = st.lists(
    st.one_of(
        nasty,
        st.sampled_from(
            ["<", "&lt;", "＜", "system", "-reminder", "_reminder", ">", "\r\n", "\u200c", "\x1b[201~", "[INST]", "<|x"]
        ),
    )
).map("".join)


def is_clean(text: str) -> bool:
    run = 0
    for character in text:
        run = run + 1 if character in JOINERS else 0
        if character in REMOVED or run > 2 or "\ud800" <= character <= "\udfff":
            return False
    return not text.endswith("\n")


@given(pieces)
@example("<\u200c<system>")
@example("\r\x00\n")
@example("<system\u200c\u200d\u200csystem>")
def test_nothing_removable_is_left_and_cleaning_again_changes_nothing(text: str) -> None:
    shown = clean(text)
    assert is_clean(shown)
    assert clean(shown) == shown
    assert not any(tag in unicodedata.normalize("NFKC", shown).lower() for tag in TAGS)


def test_each_code_point_that_is_removed_is_gone_wherever_it_stands() -> None:
    for point in sorted(REMOVED - {"\r"}):
        for before in ("a", "\u4e16", "\U0001f600"):
            assert clean(f"{before}{point}b") == f"{before}b" == clean(f"{before}{point}b".encode())


@given(st.binary())
def test_any_bytes_can_be_shown(data: bytes) -> None:
    shown = clean(data)
    assert is_clean(shown)
    assert shown.encode().decode() == shown


@given(
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="".join(REMOVED | JOINERS) + "<＜﹤‹〈〈&[［\r")
    )
)
def test_honest_text_is_shown_as_it_is(text: str) -> None:
    assert clean(text) == text.rstrip("\n") == clean(text.encode())


def test_a_hostile_body_is_made_harmless_and_stays_readable(hostile: Hostile) -> None:
    shown = clean(hostile.body)
    assert is_clean(shown)
    assert clean(shown) == shown
    for text in hostile.readable:
        assert text in shown
    plain = (
        unicodedata.normalize("NFKC", shown).replace("\u200c", "").replace("\u200d", "").replace("\u034f", "").lower()
    )
    for bracket in ("<", "</", "< ", "< / ", "&lt;", "&#x3c;", "&amp;lt;"):
        for tag in ("system-reminder", "task-notification", "command-name", "local-command-stdout", "function_results"):
            assert bracket + tag not in plain


@pytest.mark.parametrize(
    "text",
    [
        "👩🏽\u200d🚀 ❤\ufe0f क्\u200dष می\u200cخواهم \u200fعربي",
        "a < b > c, List<String>, Vec<&'a str>, <T: Clone>, <details><summary>more</summary></details>",
        "<br/> --> ->> <div class='x'> <!-- note --> #include <stdio.h> std::<closure>",
        "```\n  + Exception Group\n    | RuntimeError\n```",
        "[x] done [ ] open [link](http://example.org) [HUMAN] Human: hi",
        "&nbsp; &lt;b&gt; a && b; x &= 1; &lt",
        "全角　（かっこ）　ｶﾀｶﾅ １２３ 〜",
        "\\u001b[201~ \\x1b %1B $(x) `y`",
    ],
)
def test_text_that_only_looks_odd_is_not_touched(text: str) -> None:
    assert clean(text) == text


def test_a_tag_shows_what_it_was() -> None:
    assert clean("<system-reminder>x</system-reminder>") == "<·system-reminder>x<·/system-reminder>"
    assert clean("＜system＞ &lt;system&gt;") == "＜·system＞ &lt;·system&gt;"


def test_one_line_joins_and_says_when_something_was_cut() -> None:
    assert one_line("  a\n\n b\tc\x1b[0m ", 80) == "a b c[0m"
    assert one_line(b"caf\xc3\xa9", 4) == "café"
    assert one_line("abcdefgh", 5) == "abcd…"
    assert one_line("", 5) == ""
    assert one_line("x" * 10_000_000, 20) == "x" * 19 + "…"


@pytest.mark.parametrize(
    "piece", ["<", "<a", "< ", "&amp;", "<system", "[ ", "[/ ", "\u200c", "</ ", "\r", "<\u3164", "&#0", "\x1b"]
)
def test_time_grows_with_the_length_and_no_faster(piece: str) -> None:
    def once(text: str) -> float:
        begun = time.process_time()
        clean(text)
        return time.process_time() - begun

    def cost(size: int) -> float:
        return min(once(piece * (size // len(piece))) for _ in range(3))

    # Eight times the text: a quadratic rule would take 64 times as long. The floor covers the clock's grain.
    assert cost(400_000) < 30 * max(cost(50_000), 0.002)


def test_one_bracket_before_a_long_run_of_blanks_is_cheap() -> None:
    begun = time.process_time()
    for bracket in ("<", "[", "</", "[/", "&lt;", "&"):
        clean(bracket + " " * 300_000)
        clean(bracket + "\u3164" * 300_000)
    assert time.process_time() - begun < 5
