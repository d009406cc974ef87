"""The compiled ranking under the compiler's own watch: no place outside a table is read or written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import strongroom

ROOT = Path(__file__).resolve().parents[2]
KERNEL = Path("strongroom/engines/lexical/_kernel.c")
WATCHED = ["tests/engines/test_kernel.py", "tests/engines/test_lexical_rank.py", "tests/engines/test_signals.py"]
_ASTRAY = "    const uint32_t *packed = view.buf;\n"
"""Where a fault is planted: the first occurrence is read from one place before the column."""


def _built(place: Path, *, fault: bool) -> Path:
    """A copy of the package whose kernel stops at the first wrong step."""
    source = place / "src"
    shutil.copytree(Path(strongroom.__file__).parent, source / "strongroom")
    code = (source / KERNEL).read_text()
    assert _ASTRAY in code
    if fault:
        (source / KERNEL).write_text(code.replace(_ASTRAY, _ASTRAY.replace("view.buf;", "view.buf; packed--;")))
    subprocess.run(
        [
            *("cc", "-std=c11", "-O1", "-g", "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}"),
            *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", str(source / KERNEL)),
            *("-o", str(source / KERNEL.with_suffix(".abi3.so")), "-lm"),
        ],
        check=True,
        timeout=120,
    )
    return source


def _tested(source: Path) -> subprocess.CompletedProcess[str]:
    libraries = [
        subprocess.run(["cc", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    watching = {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",  # else most memory comes out of arenas that are not watched
        "PYTHONPATH": str(source),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-m", "not long", *WATCHED]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | watching, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.long
@pytest.mark.requirement("recall-kernel")
def test_kernel_leaves_its_tables_at_no_input(tmp_path: Path) -> None:
    done = _tested(_built(tmp_path, fault=False))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.requirement("recall-kernel")
def test_kernel_that_leaves_its_tables_is_caught(tmp_path: Path) -> None:
    """Else the test above would hold for the wrong reason."""
    done = _tested(_built(tmp_path, fault=True))
    assert "AddressSanitizer" in done.stderr
