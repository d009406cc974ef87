"""Finds the ended lines and documents of one stored namespace without loading it: no index, and no text is kept.

A line without details neither expires nor replaces another one, and its first byte says so. Of all lines only those
with details, and those that were replaced, are opened; of all documents every one, because nothing shows from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from strongroom.crypto.line_encryption import VERSION
from strongroom.keys import DOCUMENTS
from strongroom.memory.line_cache.cached_namespace import ShelfPlace
from strongroom.memory.line_cache.line_states import LineStates
from strongroom.memory.page_places import PagePlaces
from strongroom.memory.replacement_marks import read_marks
from strongroom.memory.replica import Replica
from strongroom.memory.stored_documents import is_over, line_of_version, open_stored, versions_of
from strongroom.memory.stored_lines import line_id_of, open_line
from strongroom.model import Actor, Line, LineDetails, LineId, Millis
from strongroom.store import CLOCK_LEEWAY

UNCONFIRMED = 3_600_000
"""A replacement that has not taken effect is given up after this many milliseconds (one hour).

No commit takes nearly as long.
"""
_TOGETHER = 256
"""Stored objects that are read at a time."""


class EndedSearch:
    """A search of one namespace of one actor, as it is stored; `now` is a moment before the search."""

    def __init__(self, state: Replica, actor: Actor, place: ShelfPlace, now: Millis) -> None:
        self._state = state
        self._actor = actor
        self._now = now
        self.place = place

    def find(self) -> list[Line]:
        """The lines and documents to be forgotten, without their texts; lines that one replaced come before it."""
        self._state.store.version(self._state.store.scope(self.place.prefix))  # a bucket is read anew
        return [*self._lines(), *self._documents()]

    def places(self, ended: Sequence[Line]) -> PagePlaces:
        """The places of the namespace's pages, read if anything has ended: pages without such a line can stay."""
        places = PagePlaces(self._state, self._actor, self.place.namespace, self.place.birth)
        if ended:
            places.lines_in_pages(_Everything())
        return places

    def _lines(self) -> list[Line]:
        states = LineStates()
        states.now = self._now
        # Before the lines: a replacement that is found without its mark, and is old enough, will never have one.
        for old, new in read_marks(self._state, self._actor, self.place.namespace).items():
            states.replace(old, new)
        for thing in self._state.records.objects(f"{self.place.prefix}lines/", most=_TOGETHER):
            name = line_id_of(thing.name)
            if thing.body and (thing.body[0] != VERSION or states.replacement(name) is not None):
                line = open_line(self._state, self._actor, self.place.namespace, thing)
                if line is not None and not states.counts(line):
                    states.hidden[name] = _without_text(line)
        return states.ended(Millis(self._now - CLOCK_LEEWAY), Millis(self._now - UNCONFIRMED))

    def _documents(self) -> Iterator[Line]:
        for thing in self._state.records.objects(f"{self.place.prefix}{DOCUMENTS}", most=_TOGETHER):
            document = open_stored(self._state, self._actor, self.place.namespace, thing)
            for version in () if document is None else versions_of(document):
                if document is not None and is_over(version, Millis(self._now - CLOCK_LEEWAY)):
                    yield _without_text(line_of_version(document, version))
                    if version == document.present:
                        break  # the earlier ones go with it


class _Everything(frozenset[LineId]):
    """Holds every line: whatever is in a page that cannot be used any more, must be forgotten with it, too."""

    def __contains__(self, _: object) -> bool:
        return True


def _without_text(line: Line) -> Line:
    details = line.details or LineDetails()
    kept = LineDetails(expires=details.expires, replaces=details.replaces, document=details.document)
    return msgspec.structs.replace(line, text="", session="", author="", details=kept)
