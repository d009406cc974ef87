"""The file `.env` of a home: one variable in each line, which a runtime adds to its environment at start.

- The file is replaced whole or not at all. Afterwards its mode is 0600, even if others could read it before. Lines,
  comments and their order stay. Of a variable that occurs twice, one line remains. A comment behind a value moves to
  the line above.
- For writing, a link, a special file or another user's file is refused, because secrets would end up elsewhere. For
  reading at a start, a link to a file of this user is followed. A file that cannot be used is skipped and logged.
- Some variables are never read from the file, nor written to it (`is_never_set`).
- Values are quoted so that python-dotenv and Hermes' own reader, which differ, read the same value. `unfit` says which
  values cannot be written so; the caller refuses them.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from strongroom.errors import ProviderUnavailable
from strongroom.private_files import make_directory, write_file

_log = logging.getLogger("strongroom.host")

_MOST_BYTES = 1 << 20
# Variables that decide which programs and libraries run, where a home is, or how a vault is guarded.
_NEVER = re.compile(
    r"(LD|DYLD|STRONGROOM)_.*|PYTHON[A-Z0-9].*|PYTHON_(GIL|JIT|HISTORY|BASIC_REPL)|BASH_(ENV|FUNC.*)|ENV|IFS|NODE_(OPTIONS|PATH)|PERL5(LIB|OPT)|RUBY(LIB|OPT)"
    r"|GIT_(SSH|SSH_COMMAND|EXEC_PATH|SHELL)|PATH|HOME|SHELL|BROWSER|EDITOR|VISUAL|PAGER"
    r"|HERMES_(HOME|PROFILE|CONFIG|ENV)",
    re.DOTALL,
)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LINE = re.compile(
    r"[^\S\r\n]*(?P<export>export[^\S\r\n]+)?(?P<key>[^=#\s'\"]+)[^\S\r\n]*=[^\S\r\n]*"
    r"(?:'(?P<single>(?:\\'|[^'])*)'|\"(?P<double>(?:\\\"|[^\"])*)\"|(?P<plain>(?!['\"])[^\r\n]*?))"
    r"(?P<comment>[^\S\r\n]+#[^\r\n]*)?[^\S\r\n]*(?P<end>\r\n|\n|\r|\Z)"
)
_REST = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")


def is_never_set(name: str) -> bool:
    """True for a variable that neither a home's `.env` nor a provider's set-up may set."""
    return _NEVER.fullmatch(name) is not None


def read(home: Path, *, follow: bool = False) -> dict[str, str]:
    """The variables in `<home>/.env`, as the usual readers see them. If a name occurs twice, the last value counts."""
    found = {}
    for match in filter(None, _lines(text(home, follow=follow) or "")):
        found[match["key"]] = _value(match)
    return found


def apply(home: Path) -> None:
    """Add the variables to this process's environment, as runtimes do at start. Variables that are already set stay.

    Raises nothing: a file or a variable that cannot be used is left out and logged.
    """
    try:
        found = read(home, follow=True)
    except ProviderUnavailable as error:
        _log.warning("%s", error.message)
        return
    for name, value in found.items():
        if is_never_set(name):
            _log.warning(".env: the variable %s is left out: a home may not set it", _printable(name))
            continue
        try:
            os.environ.setdefault(name, value)
        except ValueError:  # it contains a NUL
            _log.warning(".env: the variable %s is left out: it is not valid in an environment", _printable(name))


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name)[:100]


def rewritten(before: str, variables: Mapping[str, str]) -> str:
    """The text of a `.env`, with `variables` set in it. Everything else stays as it is."""
    end = "\r\n" if "\r\n" in before else "\n"
    left, parts, position = dict(variables), [], 0
    for match in _lines(before):
        line = match.group() if match else _REST.match(before, position).group()  # type: ignore[union-attr]
        position += len(line)
        if match is None or match["key"] not in variables:
            parts.append(line)
        elif match["key"] in left:
            comment = f"{match['comment'].strip()}{end}" if match["comment"] else ""
            parts.append(f"{comment}{match['export'] or ''}{match['key']}={_quoted(left.pop(match['key']))}{end}")
    if left and parts and not parts[-1].endswith(("\n", "\r")):
        parts.append(end)
    return "".join([*parts, *(f"{name}={_quoted(value)}{end}" for name, value in left.items())])


def _lines(content: str) -> list[re.Match[str] | None]:
    """Split a `.env` into its lines, each with its variable. A line that sets no variable comes with None.

    A quoted value may span several lines of the text.
    """
    found, position = [], 0
    while position < len(content):
        match = _LINE.match(content, position)
        found.append(match)
        position = (match or _REST.match(content, position)).end()  # type: ignore[union-attr]
    return found


def _value(match: re.Match[str]) -> str:
    if match["single"] is not None:
        return re.sub(r"\\([\\'])", r"\1", match["single"])
    if match["double"] is not None:
        return re.sub(r"\\([\\'\"abfnrtv])", lambda one: _ESCAPES.get(one[1], one[1]), match["double"])
    return match["plain"] or ""


def unfit(value: str) -> str:
    """Why a value cannot be written so that every reader reads it back. Empty if it can be written."""
    if not all(char.isprintable() for char in value):
        return "must be one line without control characters"
    if "}" in value.partition("${")[2]:
        return "must not hold ${...}: readers of .env replace that"
    if value.endswith("\\") and not _is_fit_bare(value):
        return "must not end in a backslash"
    return ""


def _quoted(value: str) -> str:
    """A value quoted for every reader: bare if it is harmless, otherwise in single quotes, or in double quotes with
    escapes.

    python-dotenv takes a backslash before the closing quote for an escape, even if that backslash is itself escaped. So
    a value that ends in a backslash stays bare.
    """
    if re.fullmatch(r"[A-Za-z0-9_./:@%+,=-]*", value):
        return value
    if "'" not in value and "\\" not in value:
        return f"'{value}'"
    if value.endswith("\\"):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _is_fit_bare(value: str) -> bool:
    return value[0] not in "'\"" and not value[0].isspace() and not re.search(r"\s#", value)


def text(home: Path, *, follow: bool = False) -> str | None:
    """The text of the home's `.env`, or None if there is no such file.

    Raises ProviderUnavailable if it is not a regular file of this user with UTF-8 text.
    """
    path = home / ".env"
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refused(path, "it is a link" if path.is_symlink() else error.strerror or "") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise _refused(path, "it is not a file of yours")
        data = os.read(handle, _MOST_BYTES + 1)
    finally:
        os.close(handle)
    if len(data) > _MOST_BYTES:
        raise _refused(path, "it is larger than 1 MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _refused(path, "it is not UTF-8") from None


def is_open(home: Path) -> bool:
    """True if a user other than the owner of the file may read or write it."""
    path = home / ".env"
    return path.exists() and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def write(home: Path, content: str | None) -> None:
    """Replace the content of the home's `.env`. None removes the file."""
    path = home / ".env"
    try:
        if content is None:
            path.unlink(missing_ok=True)
            return
        make_directory(home)
        write_file(path, content.encode(), new=False)
    except OSError as error:
        raise _refused(path, error.strerror or "") from None


def _refused(path: Path, why: str) -> ProviderUnavailable:
    return ProviderUnavailable(
        f"the file {path} cannot be used for settings: {why}", hint="nothing was written to the file"
    )
