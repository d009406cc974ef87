#!/bin/sh
# wire-demo.sh [OPTION]...: run `strongroom demo` in the real Hermes with these options, and end as it ends: 0 only if
# every step is green. With a checkout's own environments, which `make` sets up where they are missing, nothing may be
# left out for want of a package, as in `make demo`. Without them, a `strongroom` on PATH shows what is installed there.
# No S3 server is started here: --store s3://bucket/prefix names one.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
own=$root/.venv/bin/strongroom
hermes=$root/.venv-hermes/bin/python

if [ ! -x "$own" ] && command -v strongroom >/dev/null 2>&1; then
    exec strongroom demo "$@"
fi
if [ ! -x "$own" ] || [ ! -x "$hermes" ]; then
    make -C "$root" .venv/.ready .venv-hermes/.ready >&2
fi
exec "$own" demo --require-extras --hermes "$hermes" "$@"
