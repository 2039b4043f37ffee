"""The one sanitiser: what a peer wrote, made fit to be shown to an agent, a terminal or a log.

Rules, in this order (each later one relies on the earlier):

1. Bytes are read as UTF-8; whatever is not UTF-8 shows as U+FFFD. Nothing here ever raises.
2. CRLF and a lone CR become LF.
3. Removed: code points that act on a terminal, turn the text around or hide text in it (`REMOVED`, `REMOVED_ABOVE`).
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

__all__ = ("BODY_MARK", "clean", "one_line", "unmarked")

MARK = "·"
BODY_MARK = "│ "
"""In front of a line that a peer wrote, where lines of others stand beside it."""

REMOVED = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but TAB and LF, DEL, C1
    "\xad\u180e\u200b\ufeff"  # invisible: soft hyphen, Mongolian separator, zero width space, byte order mark
    "\u2028-\u202e\u2060-\u206f"  # line separators, embeddings, overrides, isolates, invisible operators
    "\ufff9-\ufffb\ufdd0-\ufdef\ufffe\uffff"  # interlinear, noncharacters
)
REMOVED_ABOVE = "\U0001d173-\U0001d17a\U000e0000-\U000e007f" + "".join(  # musical controls, tag characters
    f"{chr(plane * 0x10000 + 0xFFFE)}{chr(plane * 0x10000 + 0xFFFF)}" for plane in range(1, 17)
)
"""The same beyond the first plane; apart, since few texts go there, and looking so far for each character is slow."""
JOINERS = "\u200c-\u200f\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_UNSEEN = JOINERS + "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
"""Shown as nothing, so that they cannot keep a tag's name apart for a reader."""

_PLAIN = bytes(set(b"\t\n") | set(range(0x20, 0x7F)) - set(b"<&["))
"""ASCII that no rule but the last one is about."""
_CONTROLS = bytes(set(range(0x20)) - set(b"\t\n") | {0x7F})
_BELOW = bytes(range(0xF0))
"""First bytes, in UTF-8, of what is not beyond the first plane."""
_removed, _removed_above = re.compile(f"[{REMOVED}]+"), re.compile(f"[{REMOVED_ABOVE}]+")
_surrogates = re.compile("[\ud800-\udfff]")
_joiner_run = re.compile(f"([{JOINERS}]{{2}})[{JOINERS}]+")
_tag = re.compile(
    r"(?P<bracket>[<＜﹤‹〈〈&](?:(?<!&)|(?<=&)(?:amp;)*(?:lt|LT|#0*60|#[xX]0*3[cC]);?))"
    rf"(?P<rest>[\s/／{_UNSEEN}]*(?P<name>[|｜][\w{_UNSEEN}]|[\w{_UNSEEN}:.\-－‐-―−]{{1,80}}))"
)
_instruction_mark = re.compile(r"([\[［])(?=\s{0,4}[/／]?\s{0,4}INST\s{0,4}[\]］])", re.IGNORECASE)
_dashes = re.compile("[_‐-―−]")
_unseen = re.compile(f"[{_UNSEEN}]")
_bracket = re.compile(r"[\[［]")
_own_notice = re.compile(r"(fleettrio)(: message\b)", re.IGNORECASE)

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
    if isinstance(data, bytes) and not data.translate(None, _PLAIN):
        return data.decode("ascii").rstrip("\n")
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else _surrogates.sub("\ufffd", data)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _without_removed(text)
    if not text.isascii():
        text = _joiner_run.sub(r"\1", text)
    text = _tag.sub(_defused, text)
    text = _instruction_mark.sub(rf"\1{MARK}", text)
    return text.rstrip("\n")


def _without_removed(text: str) -> str:
    """Rule 3. The controls of ASCII go first, at once; what is left is printable as a rule, and then has none of it."""
    data = text.encode().translate(None, _CONTROLS)
    text = data.decode()
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = _removed.sub("", text)
    return _removed_above.sub("", text) if data.translate(None, _BELOW) else text


def one_line(data: bytes | str, limit: int) -> str:
    """At most `limit` characters of `data` on one line, for lists and logs, never one of our frame; `…` at the end says
    that more was there."""
    if not data:
        return ""
    # What cannot be shown anyway is not cleaned: a list must not pay for bodies of a megabyte.
    head = data[: limit * 8 + 64]
    line = " ".join(unmarked(head).split())
    if len(line) > limit or len(head) < len(data):
        line = line[: max(0, limit - 1)].rstrip() + "…"
    return line


def unmarked(data: bytes | str) -> str:
    """As `clean`, for where no mark stands in front of each line of a body: what could be taken for our own frame, or
    for the line that stands for one, is defused as the tags are."""
    text = _own_notice.sub(rf"\1{MARK}\2", clean(data))
    return _bracket.sub(lambda found: found[0] + MARK * _begins_frame(text[found.end() : found.end() + 64]), text)


def _begins_frame(text: str) -> bool:
    if text.isascii():
        return text[:32].lstrip()[:9].lower() == "fleettrio"
    return unicodedata.normalize("NFKC", _unseen.sub("", text)).casefold().lstrip().startswith("fleettrio")


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
