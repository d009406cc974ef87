"""The documents of a cached namespace: which line is the present version of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from strongroom.model import Line, LineId


@runtime_checkable
class HasDocuments(Protocol):
    """A source that has documents beside lines."""

    def read_document(self, locator: str) -> Line | None:
        """The present version of a document; None if it is deleted or gone."""


class DocumentLines:
    """The present versions by locator. The lock of the shelf is held during every call."""

    def __init__(self) -> None:
        self._versions: dict[str, LineId | None] = {}

    def __len__(self) -> int:
        return len(self._versions)

    def ids(self) -> list[LineId]:
        """The lines that are documents."""
        return [name for name in self._versions.values() if name is not None]

    def load(self, documents: Mapping[str, Line | None]) -> Iterator[Line]:
        """Record documents that were loaded. Yields the lines to add.

        Documents that have changed and were read again meanwhile are left out: the loaded version may be an older one.
        """
        for locator, line in documents.items():
            if locator not in self._versions:
                self.replace(locator, line)
                if line is not None:
                    yield line

    def replace(self, locator: str, line: Line | None) -> LineId | None:
        """Record the version that a document has now. Returns the line to drop, if it had another."""
        before = self._versions.get(locator)
        self._versions[locator] = None if line is None else line.id
        return before if before != self._versions[locator] else None
