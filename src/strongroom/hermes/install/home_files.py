"""Read and replace files in a runtime's home, completely and durably. Links that lead out of the home are refused."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from strongroom.errors import InvalidRequest, KeyUnavailable
from strongroom.private_files import draft, sync_directory

_LIMIT = 4 << 20


def inside(home: Path, path: Path) -> Path:
    """The real path of a file in a home. Raises `InvalidRequest` if a link leads out of the home: others may own the
    files there.
    """
    real, base = path.resolve(), home.resolve()
    if not real.is_relative_to(base):
        raise InvalidRequest(
            f"the file {path} is a link that leads out of the home {home}, to {real}",
            hint="replace the link by the file itself: files outside the home are not changed",
        )
    return real


def is_within(path: Path, home: Path) -> bool:
    """Whether a path is in a home, after all links are resolved."""
    return path.resolve().is_relative_to(home.resolve())


def read_text(path: Path) -> str | None:
    """The text of a file; None if there is no file. Raises `InvalidRequest` if the file is too large or unreadable."""
    try:
        if path.stat().st_size > _LIMIT:
            raise InvalidRequest(f"the file {path} is larger than {_LIMIT >> 20} MB")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise InvalidRequest(f"the file {path} is not UTF-8 text") from None
    except OSError as error:
        raise InvalidRequest(f"cannot read the file {path}: {error.strerror}") from None


def replace_text(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Replace a file's text atomically and durably. An existing file keeps its mode."""
    try:
        _replace(path, text.encode(), _mode_of(path, mode))
    except OSError as error:
        raise KeyUnavailable(
            f"cannot write the file {path}: {error.strerror}", hint="the file was not changed"
        ) from None


def _replace(path: Path, data: bytes, mode: int) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=draft(path.name))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    sync_directory(path.parent)


def _mode_of(path: Path, otherwise: int) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return otherwise


def remove(path: Path) -> bool:
    """Remove a file durably. Returns False if there was no file."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise KeyUnavailable(f"cannot remove the file {path}: {error.strerror}") from None
    sync_directory(path.parent)
    return True
