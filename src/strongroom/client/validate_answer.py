"""Validates the answers of a server: ids, namespaces, links, cursors and times must have the form that a vault uses.

Callers show these values unchanged, on terminals and to models. So an answer that hides other words in such a value is
refused as a whole. Texts, authors, sessions and sources are free text, which is made harmless where it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from strongroom import api, model
from strongroom.crypto import inbox
from strongroom.errors import InvalidRequest
from strongroom.model import (
    Document,
    DocumentHistory,
    DocumentInfo,
    DocumentPage,
    Forgotten,
    Hit,
    LineInfo,
    Listing,
    Profile,
    Receipt,
    Snapshot,
)

_VERSION = re.compile(r"[0-9A-Za-z._-]{0,128}")


def is_sound(answer: object) -> bool:
    """Whether every id, namespace, link, cursor and time in an answer is well formed."""
    check = _CHECKS.get(type(answer))
    try:
        if check is not None:
            check(answer)
    except (InvalidRequest, OverflowError):
        return False
    return True


def _receipts(answer: api.Receipts) -> None:
    _lines(answer.receipts)


def _recalled(answer: api.Recalled) -> None:
    _lines(answer.lines)
    _origins(answer.lines)
    for hit in answer.lines:
        if hit.superseded_by is not None:
            model.line_id(hit.superseded_by)
        if not 0.0 <= hit.confidence <= 1.0:
            raise InvalidRequest("a confidence in the answer is not between 0 and 1")


def _listing(answer: Listing) -> None:
    _lines(answer.lines)
    _origins(answer.lines)
    # A cursor must name the last line of its page. With another cursor, a server could make a listing endless.
    if answer.next is not None and [answer.next] != [f"{line.id}.{line.namespace}" for line in answer.lines[-1:]]:
        raise InvalidRequest("the `next` of the listing does not name the last line of its page")


def _lines(lines: Iterable[Receipt | Hit | LineInfo]) -> None:
    for line in lines:
        model.line_id(line.id)
        model.namespace(line.namespace)


def _origins(lines: Iterable[Hit | LineInfo]) -> None:
    for line in lines:
        if line.document:
            model.document_key(line.document)
        model.moment(line.provenance.recorded)
        _each(model.link_id, line.provenance.links)


def _document(answer: Document | DocumentInfo) -> None:
    model.document_key(answer.key)
    model.namespace(answer.namespace)
    model.line_id(answer.version)
    _each(model.link_id, answer.provenance.links)


def _documents(answer: DocumentPage) -> None:
    _each(_document, answer.documents)
    # As in `_listing`, a cursor must name the last document of its page.
    if answer.next is not None and [answer.next] != [f"{one.namespace}/{one.key}" for one in answer.documents[-1:]]:
        raise InvalidRequest("the `next` of the listing does not name the last document of its page")


def _history(answer: DocumentHistory) -> None:
    _each(_document, answer.versions)


def _forgotten(answer: Forgotten) -> None:
    _each(model.line_id, answer.ids)
    _each(model.line_id, answer.missing)


def _snapshot(answer: Snapshot) -> None:
    _each(_profile, answer.profiles)
    _each(model.namespace, answer.left_out)


def _profile(answer: Profile) -> None:
    model.namespace(answer.namespace)
    if not _VERSION.fullmatch(answer.version):
        raise InvalidRequest("the version of a profile has characters that no version has, or is too long")


def _inbox(answer: api.Inbox) -> None:
    if not inbox.is_recipient(answer.recipient):
        raise InvalidRequest("the answer's inbox key is not a valid inbox key")


def _issued(answer: api.Issued) -> None:
    model.link_id(answer.link)


def _revoked(answer: api.Revoked) -> None:
    _each(model.link_id, answer.links)


def _caps(answer: api.Caps) -> None:
    for record in answer.caps:
        _each(model.link_id, (record.link, *record.parents))
        _each(model.namespace, record.namespaces)


def _status(answer: api.Status) -> None:
    _each(model.namespace, answer.namespaces)


def _each(check: Callable[[Any], object], values: Iterable[Any]) -> None:
    for value in values:
        check(value)


_CHECKS: dict[type[Any], Callable[[Any], None]] = {
    api.Receipts: _receipts,
    api.Inbox: _inbox,
    api.Recalled: _recalled,
    Listing: _listing,
    Document: _document,
    DocumentPage: _documents,
    DocumentHistory: _history,
    Forgotten: _forgotten,
    Snapshot: _snapshot,
    Profile: _profile,
    api.Issued: _issued,
    api.Revoked: _revoked,
    api.Caps: _caps,
    api.Status: _status,
}
"""The check for each type of answer that contains names.

Other answers contain only counts, or values whose signature is checked.
"""
