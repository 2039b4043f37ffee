#!/usr/bin/env bash
# Sets up what `make demo` and `make test` need: system packages, .venv from the lock file, fleettrio in place.
#
# On Debian and its relatives missing packages are installed (as root, or through sudo); elsewhere a message names them.
# PYTHON=/path/to/python3 chooses the interpreter; FLEETTRIO_EXTENSIONS=no leaves the compiled extension out.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'set-up: %s\n' "$*"; }
fail() { printf 'set-up: %s\n' "$@" >&2; exit 1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2> /dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

has_broker() { [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || command -v rabbitmq-server > /dev/null; }
has_compiler() { command -v "${CC:-cc}" > /dev/null || command -v gcc > /dev/null; }
has_headers() {
    "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}

# --- which system packages are missing ---------------------------------------------------------
python=$(find_python)
missing=()
[ -n "$python" ] || missing+=(python3)
if [ -z "$python" ] || ! "$python" -c 'import ensurepip, venv' 2> /dev/null; then missing+=(python3-venv); fi
has_broker || missing+=(rabbitmq-server)
command -v tmux > /dev/null || missing+=(tmux)
command -v screen > /dev/null || missing+=(screen) # the example of a transport is tested with it
command -v node > /dev/null || missing+=(nodejs) # …and so is the plugin for opencode
if [ -e /etc/debian_version ]; then command -v valgrind > /dev/null || missing+=(valgrind); fi # `make gate` counts with it
if [ "${FLEETTRIO_EXTENSIONS:-}" != no ]; then
    has_compiler || missing+=(gcc libc6-dev)
    if [ -z "$python" ] || ! has_headers "$python"; then missing+=(python3-dev); fi
fi

# Debian starts a service when its package is installed. The broker that fleettrio's demo and tests use is a private one,
# so a system-wide one is not wanted: for the time of the installation a policy says so to every package.
install_debian() {
    local root=() policy=/usr/sbin/policy-rc.d status=0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo > /dev/null || fail "missing: $*" "install them as root: apt-get install $*"
        root=(sudo)
    fi
    say "installing the Debian packages: $*"
    if [ ! -e "$policy" ]; then
        # Taken away again however this ends.
        trap "${root[*]} rm -f $policy" EXIT
        say "no system-wide service is started by them ($policy stands in the way until they are installed)"
        printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" > /dev/null
        "${root[@]}" chmod 755 "$policy"
    fi
    {
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update \
            && "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$@"
    } > /dev/null < /dev/null || status=$?
    [ "$status" -eq 0 ] || fail "apt-get could not install: $*" "its message is above; install them by hand, then run this again"
}

if [ ${#missing[@]} -gt 0 ]; then
    if [ -e /etc/debian_version ] && command -v apt-get > /dev/null; then
        install_debian "${missing[@]}"
        python=$(find_python)
        [ -n "$python" ] || fail "no Python 3.11, 3.12 or 3.13 here; set PYTHON=/path/to/python3"
    else
        # Other systems: the compiler is a wish, the rest is needed.
        say "this is not Debian, so nothing is installed for you. Missing here (Debian's names): ${missing[*]}"
        case "$(uname -s)" in
            Darwin) say "on macOS: brew install python@3.13 rabbitmq tmux; a compiler: xcode-select --install" ;;
        esac
        [ -n "$python" ] || fail "Python 3.11, 3.12 or 3.13 is needed to go on"
        has_broker && command -v tmux > /dev/null || fail "RabbitMQ and tmux are needed for the demo and the tests"
    fi
fi

# --- the environment ----------------------------------------------------------------------------
export PIP_DISABLE_PIP_VERSION_CHECK=1
if [ ! -x .venv/bin/python ]; then
    say "making .venv with $("$python" --version)"
    "$python" -m venv .venv
fi
say "installing the locked packages (requirements.lock, checked by hash)"
.venv/bin/python -m pip install --quiet --require-hashes -r requirements.lock
say "installing fleettrio in place"
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
.venv/bin/python - << 'PYTHON'
from fleettrio import _accel

why = f" ({_accel.PROBLEM})" if _accel.PROBLEM else ""
print(f"set-up: done; the hot path is {_accel.IMPLEMENTATION}{why}")
PYTHON
