#!/bin/sh
# wire-demo.sh [OPTION]...: run the long demonstration in the real Hermes with these options, and end as it ends: 0 only if
# every step is green. With a checkout's own environments, which `make` sets up where they are missing, nothing may be
# left out for want of a package, as in `make demo`. Without them, a `strongroom` on PATH says which Python has it
# installed, and that shows what is there. No S3 server is started here: --store s3://bucket/prefix names one.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
own=$root/.venv/bin/python
hermes=$root/.venv-hermes/bin/python
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"

if [ ! -x "$own" ] && installed=$(command -v strongroom); then
    exec "$(dirname -- "$(readlink -f -- "$installed")")/python" -m demo "$@"
fi
if [ ! -x "$own" ] || [ ! -x "$hermes" ]; then
    make -C "$root" .venv/.ready .venv-hermes/.ready >&2
fi
exec "$own" -m demo --require-extras --hermes "$hermes" "$@"
