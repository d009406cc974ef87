"""Where a home's cap, what waits to be delivered and the memory of how it was before are kept: places of ours alone.

A policy is read to find a home's things again after it was moved. It lies where an agent's tools can write, so nothing
else that it names is taken for ours: the paths are made here and never copied from it.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from strongroom.wiring.homes import Home
from strongroom.wiring.policy import Policy

_CAP, _STATE, _BEFORE = "runtime.cap", "state", "before.json"


@dataclass(frozen=True, slots=True)
class Places:
    """The places of one home: outside of it, because backups copy it."""

    cap: Path
    state: Path
    before: Path


def places_of(home: Home) -> Places:
    """Where a home's things are kept unless it was moved."""
    real = hashlib.sha256(os.fsencode(os.path.realpath(home.path))).hexdigest()[:8]
    return _below(_base() / f"{home.profile}-{real}")


def named_by(policy: Policy, profile: str) -> Places | None:
    """The places that a policy names, if they are of the kind that `places_of` gives to this profile."""
    if policy.profile != profile or not (policy.cap.is_absolute() and policy.state.is_absolute()):
        return None
    try:
        cap, state, base = (Path(os.path.realpath(one)) for one in (policy.cap, policy.state, _base()))
    except ValueError:  # a NUL in it
        return None
    if not re.fullmatch(rf"{re.escape(profile)}-[0-9a-f]{{8}}", cap.parent.name):
        return None
    named = _below(base / cap.parent.name)
    return _below(_base() / cap.parent.name) if (cap, state) == (named.cap, named.state) else None


def is_ours(state: Path) -> bool:
    """Whether a directory is where `places_of` puts one, and no link leads away from there."""
    return not state.is_symlink() and state.resolve().parent.parent == _base().resolve()


def _base() -> Path:
    return Path(platformdirs.user_data_dir("strongroom")) / "hermes"


def _below(directory: Path) -> Places:
    return Places(directory / _CAP, directory / _STATE, directory / _BEFORE)
