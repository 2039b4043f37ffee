#!/usr/bin/env bash
# Runs pytest: scripts/test.sh PYTHON ARGUMENT... What fails of it is run once more, alone, when nothing else runs.
#
# The tests start thousands of daemons, brokers and panes on two busy cores. When every run of 6 000 tests must pass whole,
# one that fails by chance once in a hundred runs says no more about the code than a full disk does. So few failures get
# a second try: who passes it is named in the last lines, and is a defect of that test, to be mended. Who fails again is red,
# and so is a run with more failures than that, or one in which a layer was silent or a test was skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
shift
most=8

failed=$(mktemp)
trap 'rm -f "$failed"' EXIT
status=0
FLEETTRIO_FAILED=$failed "$python" -m pytest -p tests.plugins.layers "$@" || status=$?
mapfile -t again < "$failed"
if [ "$status" -ne 1 ] || [ ${#again[@]} -eq 0 ] || [ ${#again[@]} -gt "$most" ]; then
    exit "$status"
fi
echo "--- ${#again[@]} failed: once more, alone"
"$python" -m pytest "${again[@]}"
echo "--- these failed once and passed alone; each is a test to mend:"
printf 'unsteady: %s\n' "${again[@]}"
