"""Directories that are for the owner alone. What is kept in them is for others to say."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path


def make_directory(directory: Path) -> None:
    """Make a directory and those missing above it, each of mode 0700 whatever the umask. Those there stay as they are.

    `Path.mkdir` gives its mode to the last one alone: those above would be open to all under a umask of 000.
    """
    missing = list(takewhile(lambda above: not above.exists(), directory.parents))
    for one in (*reversed(missing), directory):
        one.mkdir(mode=0o700, exist_ok=True)
