"""Scenes for tests of how the kit drives its processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from strongroom.host.conformance import provider_probe
from strongroom.host.conformance.check_stage import CheckStage


def surroundings(stage: CheckStage) -> dict[str, str]:
    """The environment of a check's process, and where it works."""
    return {**os.environ, "cwd": str(Path.cwd())}


def impatient(stage: CheckStage) -> dict[str, Any]:
    """The look before the checks, with a second for each hook."""
    return provider_probe.look(stage, limit=1)
