from fleettrio._pure import FrameReader as FrameReader
from fleettrio._pure import Layout as Layout
from fleettrio._pure import SeenSet as SeenSet
from fleettrio._pure import decode_header as decode_header
from fleettrio._pure import encode_header as encode_header
from fleettrio._pure import encode_publishes as encode_publishes
from fleettrio._pure import is_gid as is_gid
from fleettrio._pure import is_key as is_key
from fleettrio._pure import is_msg_id as is_msg_id
from fleettrio._pure import is_name as is_name
from fleettrio._pure import is_plain as is_plain
from fleettrio._pure import is_trace_id as is_trace_id
from fleettrio._pure import is_word as is_word
from fleettrio._pure import leaf_of as leaf_of
from fleettrio._pure import leaves_of as leaves_of
from fleettrio._pure import merkle as merkle
from fleettrio._pure import read_content_header as read_content_header
from fleettrio._pure import read_header_table as read_header_table
from fleettrio._pure import root_of as root_of
from fleettrio._pure import roots_of as roots_of
from fleettrio._pure import table_size as table_size
from fleettrio._pure import verify_many as verify_many

__all__ = (
    "FrameReader",
    "Layout",
    "SeenSet",
    "decode_header",
    "encode_header",
    "encode_publishes",
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
