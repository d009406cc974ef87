#!/bin/sh
# wire-demo.sh [OPTION]...: run `strongroom demo` with these options, and end as it ends: 0 only if every step is green.
# The command is the one of this checkout's .venv, else the one on PATH, else one that `make` sets up here first.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
own=$root/.venv/bin/strongroom

if [ -x "$own" ]; then
    exec "$own" demo "$@"
elif command -v strongroom >/dev/null 2>&1; then
    exec strongroom demo "$@"
fi
make -C "$root" .venv/.ready >&2
exec "$own" demo "$@"
