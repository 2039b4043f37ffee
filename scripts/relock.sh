#!/usr/bin/env bash
# Makes requirements.lock anew from the ranges in pyproject.toml, with the hash of every file of each release.
# Run it on the oldest Python that is supported: what only that one needs is then in the lock for all.
set -euo pipefail
cd "$(dirname "$0")/.."

.venv/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "make .venv with Python 3.11" >&2; exit 1; }
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
.venv/bin/python -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet 'pip-tools>=7.5,<8'
"$tools/venv/bin/pip-compile" --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
    --extra build --extra test --extra check --output-file "$tools/lock" pyproject.toml
{
    echo "# Every package that fleettrio runs, tests and checks with, pinned by hash for Python 3.11-3.13 (Linux, macOS)."
    echo '# Made by `scripts/relock.sh` from pyproject.toml; do not edit by hand.'
    sed '/^# The following packages are considered/d; /^$/d' "$tools/lock"
} > requirements.lock
