"""The documents of a cached namespace, and the line that holds the present version of each document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from strongroom.model import Line, LineId


@runtime_checkable
class HasDocuments(Protocol):
    """A source of lines that can also read documents."""

    def read_document(self, locator: str) -> Line | None:
        """The present version of a document as a line, or None if the document was deleted or never existed."""


class DocumentLines:
    """The ids of the documents' present versions, by the locators of the documents.

    The lock of the cached namespace is held during every call.
    """

    def __init__(self) -> None:
        self._versions: dict[str, LineId | None] = {}

    def __len__(self) -> int:
        return len(self._versions)

    def ids(self) -> list[LineId]:
        """The ids of the lines that are present versions of documents."""
        return [name for name in self._versions.values() if name is not None]

    def load(self, documents: Mapping[str, Line | None]) -> Iterator[Line]:
        """Record documents that were loaded, and yield the lines to add.

        A document that is known already is left out: it was read again after a change, and the loaded version may be
        older.
        """
        for locator, line in documents.items():
            if locator not in self._versions:
                self.replace(locator, line)
                if line is not None:
                    yield line

    def replace(self, locator: str, line: Line | None) -> LineId | None:
        """Record the present version of a document. Returns the id of its earlier version, if that line must go."""
        before = self._versions.get(locator)
        self._versions[locator] = None if line is None else line.id
        return before if before != self._versions[locator] else None
