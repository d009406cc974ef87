#!/bin/sh
# setup.sh VENV REQUIREMENT...: make a virtual environment and install into it, saying what it does.
# PYTHON picks the interpreter; UNPINNED=1 installs without constraints.txt. A finished environment has VENV/.ready.
set -eu
venv=$1; shift
python=${PYTHON:-python3}

command -v "$python" >/dev/null 2>&1 || { echo "setup: there is no $python; install Python 3.11 to 3.13" >&2; exit 1; }
"$python" - <<'PY' || exit 1
import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(f"setup: Python 3.11 to 3.13 is needed, this is {sys.version.split()[0]}; try make PYTHON=python3.11")
PY

rm -rf "$venv"
echo "setup: making $venv with $("$python" --version)"
"$python" -m venv "$venv" || {
    echo "setup: cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2
    exit 1
}
echo "setup: installing $*"
constraints=${UNPINNED:+}
[ -n "${UNPINNED:-}" ] || constraints="-c constraints.txt"
# shellcheck disable=SC2086
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check $constraints "$@" || {
    echo "setup: pip could not install; it needs a package index (see the lines above)" >&2
    exit 1
}
touch "$venv/.ready"
