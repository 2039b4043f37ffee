"""Choose the compiled hot path when it is there and works; `_pure` otherwise. The only module that imports `_fast`.

`IMPLEMENTATION` is `compiled` or `pure`; `PROBLEM` says why it is not compiled, empty when it is or was not wanted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleettrio._pure import MAX_BATCH, MAX_HEADER, Value

__all__ = (
    "IMPLEMENTATION",
    "MAX_BATCH",
    "MAX_HEADER",
    "PROBLEM",
    "SeenSet",
    "Value",
    "decode_header",
    "encode_header",
    "leaf_of",
    "merkle",
    "root_of",
    "verify_many",
)

IMPLEMENTATION = "pure"
PROBLEM = ""

if TYPE_CHECKING or os.environ.get("FLEETTRIO_NO_EXTENSIONS"):
    from fleettrio._pure import SeenSet, decode_header, encode_header, leaf_of, merkle, root_of, verify_many
else:
    try:
        from fleettrio._fast import SeenSet, decode_header, encode_header, leaf_of, merkle, root_of, verify_many

        IMPLEMENTATION = "compiled"
    except ImportError as error:
        # Not built, built for another Python, or libsodium's functions are not where PyNaCl ships them.
        PROBLEM = str(error)
        from fleettrio._pure import SeenSet, decode_header, encode_header, leaf_of, merkle, root_of, verify_many
