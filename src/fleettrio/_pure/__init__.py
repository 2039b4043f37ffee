"""Reference implementation of the hot path; `_fast` is its compiled twin: same names, results, errors and texts.

Rules (`docs/wire.md`):

1. A header has one form; what is decoded encodes to the same bytes.
2. One signature covers a tree of up to 256 leaves; a proof leads from leaf to root.
3. What a peer can cause is `MalformedEnvelope`, `False` for a signature, a `problem` of one message or `Broken` for a
   connection; what only we can cause is `ValueError`.

Change this one first, and `_fast` in the same commit.
"""

from __future__ import annotations

from fleettrio._pure.contents import ContentHeader, RawHeaders, read_content_header, read_header_table
from fleettrio._pure.forms import RESERVED_NAMES, is_gid, is_key, is_msg_id, is_name, is_trace_id, is_word
from fleettrio._pure.frames import Broken, Confirm, Delivered, FrameReader, Incoming, Returned
from fleettrio._pure.header import MAX_HEADER, Value, decode_header, encode_header
from fleettrio._pure.layout import Field, Form, KindRule, Layout
from fleettrio._pure.plain import is_plain
from fleettrio._pure.publishes import Outgoing, encode_ack, encode_publishes, encode_reject, table_size
from fleettrio._pure.seen import SeenSet
from fleettrio._pure.trees import MAX_BATCH, leaf_of, leaves_of, merkle, root_of, roots_of, verify_many

__all__ = (
    "MAX_BATCH",
    "MAX_HEADER",
    "RESERVED_NAMES",
    "Broken",
    "Confirm",
    "ContentHeader",
    "Delivered",
    "Field",
    "Form",
    "FrameReader",
    "Incoming",
    "KindRule",
    "Layout",
    "Outgoing",
    "RawHeaders",
    "Returned",
    "SeenSet",
    "Value",
    "decode_header",
    "encode_ack",
    "encode_header",
    "encode_publishes",
    "encode_reject",
    "is_gid",
    "is_key",
    "is_msg_id",
    "is_name",
    "is_plain",
    "is_trace_id",
    "is_word",
    "leaf_of",
    "leaves_of",
    "merkle",
    "read_content_header",
    "read_header_table",
    "root_of",
    "roots_of",
    "table_size",
    "verify_many",
)
