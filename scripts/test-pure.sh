#!/usr/bin/env bash
# Runs the tests as somebody without a compiler gets fleettrio: a fresh environment, built with no compiler on PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
pure=${1:-.venv-pure}

# A PATH with everything that this one has, but no compiler.
rm -rf "$pure"
python_of_dev=$(.venv/bin/python -c 'import sys; print(sys._base_executable)')
"$python_of_dev" -m venv "$pure"
tools=$PWD/$pure/tools
mkdir "$tools"
IFS=: read -ra folders <<< "$PATH"
for folder in "${folders[@]}"; do
    [ -d "$folder" ] || continue
    for tool in "$folder"/*; do
        name=${tool##*/}
        case $name in
            cc | c89* | c99* | c++* | cpp* | *gcc* | *g++* | *clang* | tcc | icc | icx) continue ;;
        esac
        [ -x "$tool" ] && [ ! -e "$tools/$name" ] && ln -s "$tool" "$tools/$name"
    done
done
export PATH=$tools
unset CC CXX FLEETTRIO_EXTENSIONS FLEETTRIO_NO_EXTENSIONS
! command -v cc gcc clang || { echo "there is still a compiler on PATH" >&2; exit 1; }

# The sources alone: nothing that an earlier build left beside them.
source=$pure/source
mkdir "$source"
cp -R pyproject.toml setup.py README.md LICENSE src "$source"
find "$source" \( -name '*.so' -o -name '_fast.c' -o -name '*.egg-info' -o -name __pycache__ \) -prune -exec rm -rf {} +

export PIP_DISABLE_PIP_VERSION_CHECK=1
"$pure/bin/python" -m pip install --quiet --require-hashes -r requirements.lock
"$pure/bin/python" -m pip install --quiet --no-deps --no-build-isolation "$source"
rm -rf "$source"

"$pure/bin/python" - << 'PYTHON'
import pathlib
import sys

import fleettrio
from fleettrio import _accel

folder = pathlib.Path(fleettrio.__file__).parent
compiled = list(folder.glob("_fast*.so"))
assert folder.is_relative_to(sys.prefix), f"not the installed package: {folder}"
assert not compiled, f"a compiled extension is there: {compiled}"
assert _accel.IMPLEMENTATION == "pure", _accel.IMPLEMENTATION
print(f"pure-Python installation in {folder}")
PYTHON
export FLEETTRIO_EXPECT=pure
bash scripts/test.sh "$pure/bin/python" -n 3 --dist loadfile tests --ignore tests/faults --ignore tests/sim
# The rules are the same ones: fewer worlds than `make test`, which has the time.
FLEETTRIO_SIM_SEEDS=125 "$pure/bin/python" -m pytest -p tests.plugins.layers -n 2 -o faulthandler_timeout=900 tests/sim
bash scripts/test.sh "$pure/bin/python" -n 3 --dist loadfile tests/faults
