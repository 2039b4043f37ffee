"""The one sanitiser: what a peer wrote, made fit to be shown to an agent, a terminal or a log.

Rules, in this order (each later one relies on the earlier):

1. Bytes are read as UTF-8; whatever is not UTF-8 shows as U+FFFD. Nothing here ever raises.
2. CRLF and a lone CR become LF.
3. Removed: code points that act on a terminal, turn the text around or hide text in it (`REMOVED`).
4. Joiners and variation selectors carry meaning, so they stay, but never more than two in a row: longer runs carry
   nothing but hidden bits.
5. Tags that a harness or a model takes for its own voice get a visible `·` behind their first bracket. The text stays
   readable and no longer is the tag, in any case, width or entity spelling.
6. Line ends at the end go.

The stored and signed body is never touched: this is only what is shown.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ("clean", "one_line")

MARK = "·"

_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    f"{chr(plane * 0x10000 + 0xFFFE)}{chr(plane * 0x10000 + 0xFFFF)}" for plane in range(17)
)
REMOVED = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but TAB and LF, DEL, C1
    "\xad\u180e\u200b\ufeff"  # invisible: soft hyphen, Mongolian separator, zero width space, byte order mark
    "\u2028-\u202e\u2060-\u206f"  # line separators, embeddings, overrides, isolates, invisible operators
    "\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e007f"  # interlinear, musical controls, tag characters
    + _NONCHARACTERS
)
JOINERS = "\u200c-\u200f\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_UNSEEN = JOINERS + "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
"""Shown as nothing, so that they cannot keep a tag's name apart for a reader."""

_removed = re.compile(f"[{REMOVED}]+")
_surrogates = re.compile("[\ud800-\udfff]")
_joiner_run = re.compile(f"([{JOINERS}]{{2}})[{JOINERS}]+")
_tag = re.compile(
    r"(?P<bracket>[<＜﹤‹〈〈]|&(?:amp;)*(?:lt|LT|#0*60|#[xX]0*3[cC]);?)"
    rf"(?P<rest>[\s/／{_UNSEEN}]*(?P<name>[|｜][\w{_UNSEEN}]|[\w{_UNSEEN}:.\-－‐-―−]{{1,80}}))"
)
_instruction_mark = re.compile(r"([\[［])(?=\s{0,4}[/／]?\s{0,4}INST\s{0,4}[\]］])", re.IGNORECASE)
_dashes = re.compile("[_‐-―−]")
_unseen = re.compile(f"[{_UNSEEN}]")

_TAG_NAME = re.compile(
    r"""
      (?:antml:)?(?:system|sys|human|assistant|user|developer|tool|thinking|instructions?)
    | (?:antml:)?(?:function|tool)-(?:calls?|results?|use|response|output)
    | antml:[a-z-]+ | invoke | parameter
    | system-[a-z-]+ | user-(?:prompt|message|input|query|instructions)[a-z-]*
    | [a-z-]+-hook | hook-[a-z-]+
    | command-(?:name|message|args|contents|output)
    | local-command-[a-z-]+ | bash-(?:input|stdout|stderr|output)
    | task-(?:notification|id|result|summary)
    | (?:teammate|peer|cross-session)-message | agent-notification
    | (?:pasted|untrusted)-content | persisted-output | environment-(?:context|details)
    | additional-context | permissions?-[a-z-]+ | channel | turn-aborted | end-conversation
    """,
    re.VERBOSE,
)


def clean(data: bytes | str) -> str:
    """What may be shown of `data`. Linear in its length; cleaning twice gives the same."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else _surrogates.sub("\ufffd", data)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _removed.sub("", text)
    text = _joiner_run.sub(r"\1", text)
    text = _tag.sub(_defused, text)
    text = _instruction_mark.sub(rf"\1{MARK}", text)
    return text.rstrip("\n")


def one_line(data: bytes | str, limit: int) -> str:
    """At most `limit` characters of `data` on one line, for lists and logs; `…` at the end says that more was there."""
    # What cannot be shown anyway is not cleaned: a list must not pay for bodies of a megabyte.
    head = data[: limit * 8 + 64]
    line = " ".join(clean(head).split())
    if len(line) > limit or len(head) < len(data):
        line = line[: max(0, limit - 1)].rstrip() + "…"
    return line


def _defused(match: re.Match[str]) -> str:
    if not _is_tag_name(match["name"]):
        return match[0]
    return f"{match['bracket']}{MARK}{match['rest']}"


def _is_tag_name(name: str) -> bool:
    """Whether `name` is one that a harness or a model listens to, however it was spelled."""
    if name[0] in "|｜":  # control tokens of chat templates
        return True
    plain = unicodedata.normalize("NFKC", _unseen.sub("", name)).casefold()
    plain = _dashes.sub("-", plain).strip("-.:")
    return _TAG_NAME.fullmatch(plain) is not None
