"""What is told to each harness: which hooks to run, which MCP server to start, what of ours needs no asking.

`fleettrio claude|codex|opencode` passes it to one process and writes nothing; `fleettrio setup` writes it for good.
Both say the same words, so that a harness that was told twice runs each hook once.
"""

from __future__ import annotations
