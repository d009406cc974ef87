"""The command line and its empty home, for comparing it with `strongroom.local()`."""

from __future__ import annotations

from tests.cli.conftest import cli, home

__all__ = ["cli", "home"]
