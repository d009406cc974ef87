"""A page that is written by a script: write it, or with `--check` say whether it is what would be written."""

from __future__ import annotations

import sys
from pathlib import Path


def kept(page: Path, written: str, script: str) -> int:
    """Do the one or the other, and return the exit code."""
    if "--check" in sys.argv[1:]:
        same = page.exists() and page.read_text() == written
        print(f"docs/{page.name} {'is up to date' if same else f'is not up to date: run scripts/{script}'}")
        return 0 if same else 1
    page.write_text(written)
    print(f"wrote {len(written.splitlines())} lines")
    return 0
