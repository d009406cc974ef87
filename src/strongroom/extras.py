"""The command that installs an optional extra of Strongroom.

The name `strongroom` is on no package index yet. A command with only this name would find nothing, or the package of
someone else. Therefore every message about an installation takes its command from here.
"""

from __future__ import annotations


def how_to_install(extra: str, python: str = "") -> str:
    """The command that installs an extra, for the Python interpreter at the path `python` if it is given."""
    pip = f"{python} -m pip" if python else "pip"
    return f'{pip} install ".[{extra}]" (in a checkout of Strongroom, which is not on a package index yet)'
