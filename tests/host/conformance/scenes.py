"""Scenes for tests of how the kit drives its processes."""

from __future__ import annotations

import os
from pathlib import Path

from strongroom.host.conformance.stage import Stage


def surroundings(stage: Stage) -> dict[str, str]:
    """The environment of a check's process, and where it works."""
    return {**os.environ, "cwd": str(Path.cwd())}
