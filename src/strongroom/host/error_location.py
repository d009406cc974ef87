"""The place in a provider's code that raised an error: file name and line, without paths of this machine."""

from __future__ import annotations

import inspect
import os
import re
import traceback
from collections.abc import Iterable
from pathlib import Path

from strongroom.host.provider_interface import MemoryProvider

_PATH = re.compile(r"(?<![\w.:/~])~?(?:/[^\s/'\"(),;:]+)+/([^\s/'\"(),;:]+)")
_NOT_THEIRS = (Path(__file__).parents[1], Path(os.__file__).parent)


def place(error: BaseException, provider: object = None) -> str:
    """The last line of the provider's code in an error's traceback, as ` at store.py:12`. Empty if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if _is_own(Path(one.filename), provider)]
    return f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def kind(thing: object) -> str:
    """The name of an object's class. It is read without the metaclass, whose own code could raise."""
    return str(type.__dict__["__name__"].__get__(type(thing)))


def deepest(error: BaseException) -> str:
    """The line of code that raised an error, whether it is the provider's code or not."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def without_paths(text: str, hidden: Iterable[str] = ()) -> str:
    """A text with each path reduced to its last part, and without the `hidden` values."""
    for value in sorted((one for one in hidden if len(one) >= 4), key=len, reverse=True):
        text = text.replace(value, "<redacted>")
    return _PATH.sub(r"\1", text)


def _is_own(path: Path, provider: object) -> bool:
    if provider is None:
        return not str(path).startswith("<") and not any(path.is_relative_to(one) for one in _NOT_THEIRS)
    return any(path.is_relative_to(one) for one in _directories(type(provider)))


def _directories(cls: type) -> list[Path]:
    """The directories that hold the code of a class and of its bases."""
    found = []
    for one in cls.__mro__:
        if one is object or one is MemoryProvider or one.__module__ in ("abc", "typing", "agent.memory_provider"):
            continue
        try:
            found.append(Path(inspect.getfile(one)).parent)
        except (TypeError, OSError):
            continue
    return found
