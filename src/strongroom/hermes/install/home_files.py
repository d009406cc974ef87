"""Files of a runtime's home: read whole, replaced whole and durably, never through a link that leads out of it."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from strongroom.errors import InvalidRequest, KeyUnavailable
from strongroom.private_files import draft, sync_directory

_LIMIT = 4 << 20


def inside(home: Path, path: Path) -> Path:
    """Where a file of a home really is. One that a link leads out of the home is refused: others may own that place."""
    real, base = path.resolve(), home.resolve()
    if not real.is_relative_to(base):
        raise InvalidRequest(
            f"{path} leads out of {home}, to {real}",
            hint="replace the link by the file itself: what is outside the home is not changed from here",
        )
    return real


def is_within(path: Path, home: Path) -> bool:
    """Whether a place is in a home, whatever links lead there."""
    return path.resolve().is_relative_to(home.resolve())


def read_text(path: Path) -> str | None:
    """A file's text; None if there is no such file."""
    try:
        if path.stat().st_size > _LIMIT:
            raise InvalidRequest(f"{path} is larger than {_LIMIT >> 20} MB")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise InvalidRequest(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from None


def replace_text(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Put a text in a file's place, whole and durably, or leave what was there. A file that is there keeps its mode."""
    try:
        _replace(path, text.encode(), _mode_of(path, mode))
    except OSError as error:
        raise KeyUnavailable(f"cannot write {path}: {error.strerror}", hint="nothing of it was changed") from None


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
    """Remove a file durably; False if there was none."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise KeyUnavailable(f"cannot remove {path}: {error.strerror}") from None
    sync_directory(path.parent)
    return True
