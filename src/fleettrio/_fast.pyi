from fleettrio._pure import SeenSet as SeenSet
from fleettrio._pure import decode_header as decode_header
from fleettrio._pure import encode_header as encode_header
from fleettrio._pure import leaf_of as leaf_of
from fleettrio._pure import merkle as merkle
from fleettrio._pure import root_of as root_of
from fleettrio._pure import verify_many as verify_many

__all__ = ("SeenSet", "decode_header", "encode_header", "leaf_of", "merkle", "root_of", "verify_many")
