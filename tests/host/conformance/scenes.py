"""Scenes for tests of how the kit drives its processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from strongroom.host.conformance import probing
from strongroom.host.conformance.stage import Stage


def surroundings(stage: Stage) -> dict[str, str]:
    """The environment of a check's process, and where it works."""
    return {**os.environ, "cwd": str(Path.cwd())}


def impatient(stage: Stage) -> dict[str, Any]:
    """The look before the checks, with a second for each hook."""
    return probing.look(stage, limit=1)
