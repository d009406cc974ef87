"""Why a plugin is not available, in words: its error, and the line of its code that the error passed through.

A message is one line, without terminal control characters. Every error of a plugin ends here, except an interrupt.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from strongroom.errors import ProviderUnavailable
from strongroom.host import error_location
from strongroom.host.plugins import hermes_stubs
from strongroom.host.plugins import manifest as manifests

if TYPE_CHECKING:
    from strongroom.host.plugins.loader import FoundPlugin

_HOST = Path(__file__).parents[1]
_MOST_SAID = 300
_BEGINNING = "the provider {} is not available: "

T = TypeVar("T")


def run_isolated(one: FoundPlugin, doing: str, call: Callable[[], T]) -> T:
    """Run a plugin's code. Any error in it becomes ProviderUnavailable with the reason."""
    try:
        return call()
    except ProviderUnavailable:
        raise
    except BaseException as error:  # a plugin's fault must not be the runtime's
        if type(error) is KeyboardInterrupt:  # a subclass is the plugin's own; this one is the user's
            raise
        reason = f"{doing} failed: {describe_error(error)}{_place(error, one.path)}{_supplied(error)}"
        missing = manifests.missing_packages(one.manifest)
        hint = f"pip install {' '.join(missing)}" if missing and isinstance(error, ImportError) else ""
        raise unavailable(one, reason, hint) from None


def unavailable(one: FoundPlugin, reason: str, hint: str = "") -> ProviderUnavailable:
    where = one.path or (one.entry.value if one.entry else "")
    hint = hint or (f"see {where}" if where else "")
    return ProviderUnavailable(f"{_BEGINNING.format(one.name)}{reason}", hint=hint)


def why(error: ProviderUnavailable, name: str) -> str:
    """The reason from the message of an error, without the opening words that all such messages share."""
    return error.message.removeprefix(_BEGINNING.format(name))


def _supplied(error: BaseException) -> str:
    """A note that lists the supplied Hermes names, for an import error of another Hermes name. Empty if Hermes is
    there.
    """
    asked = getattr(error, "name", None) if isinstance(error, ImportError) else None
    if not isinstance(asked, str) or not hermes_stubs.is_supplied_in_part(asked):
        return ""
    return f"; Hermes is not installed, and in its place there is only {hermes_stubs.supplied()}"


def describe_error(error: BaseException, hidden: Sequence[str] = ()) -> str:
    """The type and the message of an error, with each hidden value redacted, even as `repr` would show it."""
    try:
        said = str(error)
        for secret in sorted(filter(None, hidden), key=len, reverse=True):
            said = said.replace(secret, "<redacted>").replace(repr(secret)[1:-1], "<redacted>")
        said = in_one_line(said)
    except Exception:  # noqa: BLE001 - even this is a plugin's code
        said = ""
    kind = in_one_line(error_location.kind(error))
    return f"{kind}: {said}" if said else kind


def _place(error: BaseException, directory: Path | None) -> str:
    """The last line of the plugin's code that an error passed through; without a directory, of any code."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [one for one in frames if directory is None or Path(one.filename).is_relative_to(directory.resolve())]
    own = [one for one in inside if not one.filename.startswith("<frozen") and not _is_ours(one.filename)]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""


def _is_ours(filename: str) -> bool:
    return Path(filename).is_relative_to(_HOST)


def in_one_line(text: str) -> str:
    """A text in one line, without terminal control characters."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(plain.split())[:_MOST_SAID]
