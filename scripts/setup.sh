#!/bin/sh
# setup.sh VENV REQUIREMENT...: make a virtual environment and install into it, saying what it does.
# PYTHON picks the interpreter; UNPINNED=1 installs without constraints.txt; NO_SYSTEM_PACKAGES=1 installs nothing outside
# VENV, where root would otherwise get a C compiler if there is none. A finished environment has VENV/.ready.
set -eu
venv=$1; shift
python=${PYTHON:-python3}

command -v "$python" >/dev/null 2>&1 || { echo "setup: there is no $python; install Python 3.11 to 3.13" >&2; exit 1; }
"$python" - <<'PY' || exit 1
import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(f"setup: Python 3.11 to 3.13 is needed, this is {sys.version.split()[0]}; try make PYTHON=python3.11")
PY

# A part of the ranking is in C (docs/adr/0030). Without a compiler it is done in Python, and `make test` says so.
can_compile() {
    "$python" - <<'PY'
import os, pathlib, shutil, sys, sysconfig
compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
sys.exit(not (shutil.which(compiler) and pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()))
PY
}
packages="gcc libc6-dev python3-dev"
# shellcheck disable=SC2086
install_compiler() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $packages >/dev/null; }
if ! can_compile && [ "$(id -u)" = 0 ] && [ -z "${NO_SYSTEM_PACKAGES:-}" ] && command -v apt-get >/dev/null 2>&1; then
    echo "setup: installing the Debian packages $packages, as root, with apt-get; NO_SYSTEM_PACKAGES=1 leaves them out"
    install_compiler || { apt-get update -qq && install_compiler; } || true
fi
can_compile || {
    echo "setup: there is no C compiler, or no Python.h: recalls will be slower, and the tests of that part will fail" >&2
    echo "setup: on Debian: apt-get install $packages, then make clean" >&2
}

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
! can_compile || "$venv/bin/python" -c "import strongroom.engines.lexical._kernel" || {
    echo "setup: _kernel.c was not compiled, though there is a C compiler; pip -v install . says why" >&2
    exit 1
}
touch "$venv/.ready"
