"""Build the compiled hot path, where that is wanted and possible; everything else is in pyproject.toml.

FLEETTRIO_EXTENSIONS   yes: fail when it cannot be built; no: leave it out; unset: leave it out when it cannot be built
FLEETTRIO_TRACE=1      line tracing for coverage; never in a wheel
FLEETTRIO_DEBUG=1      no optimisation, debug symbols, and an annotated `_fast.html` beside the source
"""

from __future__ import annotations

import glob
import os
import sys

from setuptools import Extension, setup


def extensions() -> list[Extension]:
    wanted = os.environ.get("FLEETTRIO_EXTENSIONS", "")
    if wanted not in ("", "yes", "no"):
        raise SystemExit(f"FLEETTRIO_EXTENSIONS must be yes, no or unset, not {wanted!r}")
    if wanted == "no":
        return []
    trace = os.environ.get("FLEETTRIO_TRACE") == "1"
    debug = os.environ.get("FLEETTRIO_DEBUG") == "1"
    try:
        from Cython.Build import cythonize
    except ImportError:
        if wanted == "yes":
            raise
        return []
    extension = Extension(
        "fleettrio._fast",
        ["src/fleettrio/_fast.pyx"],
        depends=sorted(glob.glob("src/fleettrio/_fast_parts/*.pxi")),
        libraries=["dl", "pthread"] if sys.platform == "linux" else [],
        extra_compile_args=["-O0", "-g"] if debug else ["-O3", "-g0"],
        define_macros=[("CYTHON_TRACE_NOGIL", "1")] if trace else [],
    )
    built: list[Extension] = cythonize(
        [extension], annotate=debug, force=trace or debug, compiler_directives={"linetrace": trace}
    )
    for made in built:
        # setuptools then says that it could not be built, and goes on without it. (Cython forgets it when set above.)
        made.optional = wanted != "yes"
    return built


setup(ext_modules=extensions())
