"""The lines that were shown or said in one conversation, in a sealed file, so that they are not shown again.

The file has ids and no text. It is sealed so that a copy without the home's key reveals only the number of ids. It is
not synced: lines whose ids are lost in a power failure are shown once more. Not thread-safe; callers hold a lock.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from strongroom.crypto import chunked_aead
from strongroom.crypto.hmac_state import HmacState, context
from strongroom.errors import InvalidRequest, KeyUnavailable, StoreUnavailable, Tampered
from strongroom.host.cache.settings_file import status_of
from strongroom.model import LineId, line_ids
from strongroom.private_files import make_directory, read_file

SHOWN = ".shown"
_LIMIT = 64 * 1024
_PURPOSE = b"strongroom hermes: lines that were shown"


class ShownFile:
    """The file of one conversation. Several processes may write it, and the ids of all of them count."""

    def __init__(self, path: Path, key: Callable[[], bytes]) -> None:
        self._path = path
        self._key = key
        self._status: tuple[int, ...] = ()
        self._held: tuple[LineId, ...] = ()

    def load(self) -> tuple[LineId, ...]:
        """Read the stored ids, the oldest first. None are returned if the file cannot be read."""
        self._status = status_of(self._path)
        self._held = self._read() if self._status else ()
        return self._held

    def save(self, seen: OrderedDict[LineId, None]) -> OrderedDict[LineId, None]:
        """Store the ids if they have changed. Returns them together with the ids that another process has stored."""
        if status_of(self._path) != self._status:
            seen = OrderedDict.fromkeys((*self.load(), *seen))
        now = tuple(seen)
        if now != self._held:
            self._write(now)
        return seen

    def clear(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        self._status, self._held = (), ()

    def _write(self, ids: tuple[LineId, ...]) -> None:
        data = chunked_aead.seal(self._sealing(), _joined(ids), self._context(), os.urandom(chunked_aead.SALT_SIZE))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            if not self._status:
                make_directory(self._path.parent)
            # In place, which takes a tenth of the time. A half-written file does not open, and its lines are shown once
            # more.
            with os.fdopen(os.open(self._path, flags, 0o600), "wb") as file:
                file.write(data)
        except OSError as error:
            raise StoreUnavailable(f"cannot write the list of shown lines: {error.strerror}") from None
        self._status, self._held = status_of(self._path), ids

    def _read(self) -> tuple[LineId, ...]:
        try:
            sealed = read_file(self._path, _LIMIT)
            text = chunked_aead.unseal(self._sealing(), sealed, self._context()).decode("ascii")
            found = tuple(LineId(one) for one in text.split())
            line_ids(found)
        except (OSError, Tampered, KeyUnavailable, InvalidRequest, UnicodeDecodeError):
            return ()
        return found

    def _sealing(self) -> bytes:
        return HmacState(self._key()).digest(_PURPOSE)

    def _context(self) -> bytes:
        return context(self._path.name)


def _joined(ids: Iterable[LineId]) -> bytes:
    return "\n".join(ids).encode()
