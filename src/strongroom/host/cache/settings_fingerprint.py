"""Fingerprints of settings: equal settings have equal fingerprints, and a fingerprint reveals no setting.

Settings hold secrets, such as a model's API key, so the fingerprint is a keyed hash. Without the key, a fingerprint
found in a log can neither be read nor be compared with guesses. The key is an argument; it must be random and never
leave the process. Settings that are not JSON have no fingerprint, because their encoding would not be unique.
"""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Mapping
from typing import NewType

from strongroom.errors import InvalidRequest

Fingerprint = NewType("Fingerprint", bytes)

DEEPEST = 32
"""How deep settings may be nested. The limit also catches a value that contains itself."""


def fingerprint(settings: object, key: bytes) -> Fingerprint:
    """The keyed hash of settings made of mappings, lists, texts, numbers, booleans and None."""
    try:
        text = json.dumps(plain(settings), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    except ValueError:  # an int of thousands of digits
        raise _refusal("settings", "holds a number that is too long") from None
    return Fingerprint(hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256"))


def plain(settings: object) -> object:
    """A copy of settings in exact built-in types. Raises InvalidRequest for a value that JSON does not have.

    Subclasses of str and int are converted too, because using them later would run their own code.
    """
    return _plain(settings, "settings", DEEPEST)


def _plain(value: object, where: str, deeper: int) -> object:
    """Check that JSON would not change the value, and return it. The keys 1 and "1" must not become equal."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float) and math.isfinite(value):
        return float.__float__(value)
    if isinstance(value, Mapping | list | tuple) and not deeper:
        raise _refusal(where, "is nested too deep")
    if isinstance(value, Mapping):
        named = [(_name(key, where), one) for key, one in value.items()]
        return {name: _plain(one, f"{where}.{name}", deeper - 1) for name, one in named}
    if isinstance(value, list | tuple):
        return [_plain(one, f"{where}[{index}]", deeper - 1) for index, one in enumerate(value)]
    raise _refusal(where, f"is of the type {type(value).__name__}, which JSON does not have")


def _name(key: object, where: str) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise _refusal(where, f"has a key that is a {type(key).__name__}; keys are texts")


def _refusal(where: str, what: str) -> InvalidRequest:
    return InvalidRequest(
        f"{where} {what}", hint="settings may be texts, numbers, booleans, None, and lists and mappings of these"
    )
