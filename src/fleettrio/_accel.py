"""Choose the compiled hot path when it is there and works; `_pure` otherwise. The only module that imports `_fast`.

`IMPLEMENTATION` is `compiled` or `pure`; `PROBLEM` says why it is not compiled, empty when it is or was not wanted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleettrio._pure import (
    MAX_BATCH,
    MAX_HEADER,
    RESERVED_NAMES,
    Broken,
    Confirm,
    ContentHeader,
    Delivered,
    Field,
    Form,
    Incoming,
    KindRule,
    Outgoing,
    RawHeaders,
    Returned,
    Value,
    encode_ack,
    encode_reject,
)

__all__ = (
    "IMPLEMENTATION",
    "MAX_BATCH",
    "MAX_HEADER",
    "PROBLEM",
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

IMPLEMENTATION = "pure"
PROBLEM = ""

if not TYPE_CHECKING and not os.environ.get("FLEETTRIO_NO_EXTENSIONS"):
    try:
        from fleettrio._fast import (
            FrameReader,
            Layout,
            SeenSet,
            decode_header,
            encode_header,
            encode_publishes,
            is_gid,
            is_key,
            is_msg_id,
            is_name,
            is_plain,
            is_trace_id,
            is_word,
            leaf_of,
            leaves_of,
            merkle,
            read_content_header,
            read_header_table,
            root_of,
            roots_of,
            table_size,
            verify_many,
        )

        IMPLEMENTATION = "compiled"
    except ImportError as error:
        # Not built, built for another Python, or libsodium's functions are not where PyNaCl ships them.
        PROBLEM = str(error)

if TYPE_CHECKING or IMPLEMENTATION == "pure":
    # All of it, also when a part of the other was there: the two are never mixed.
    from fleettrio._pure import (
        FrameReader,
        Layout,
        SeenSet,
        decode_header,
        encode_header,
        encode_publishes,
        is_gid,
        is_key,
        is_msg_id,
        is_name,
        is_plain,
        is_trace_id,
        is_word,
        leaf_of,
        leaves_of,
        merkle,
        read_content_header,
        read_header_table,
        root_of,
        roots_of,
        table_size,
        verify_many,
    )
