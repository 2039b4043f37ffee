"""Where there is no compiled implementation, what only it promises is not collected: nothing is skipped.

`make test` and `make test-pure` say by FLEETTRIO_EXPECT which one must be there, and a test asserts it.
"""

from __future__ import annotations

import importlib.util

from tests.accel.twins import COMPILED

collect_ignore: list[str] = []
if not COMPILED:
    collect_ignore += ["test_twins_compiled.py", "test_twins_loops.py"]
elif not importlib.util.find_spec("Cython"):
    # Looking at the loops takes the language's compiler, which whoever installed a wheel does not have.
    collect_ignore += ["test_twins_loops.py"]
