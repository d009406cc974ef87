"""Finds the recalled parts of a stored text, and removes forgotten lines from it. Pure.

`provider.line_format` writes a recalled line as one line of text: it begins with a dash and a time (in older
texts: a day), and ends with the line's id in brackets. Hermes stores recalled lines in the text that it sent to the
model, after the person's words and between Hermes' own fence tags.

- A fence is removed as a whole if no recalled line is left in it.
- The person's words are never changed, even if they look like a recalled line.
- In a tool's result, which is JSON, the entries of forgotten lines are removed by their id.
- A result that names a forgotten line in an unknown way is removed as a whole: any part may be the line's text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from strongroom.model import LineId

IsGone = Callable[[LineId], bool]

_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_ANY_ID = re.compile(rf"(?<![0-9A-Za-z]){_ULID}(?![0-9A-Za-z])")
_LINE = re.compile(rf"^- \d{{4,}}-\d\d-\d\d(?: \d\d:\d\d)?, [^\n]*\[({_ULID})\][ \t]*$\n?", re.MULTILINE)
_FENCE = re.compile(r"(?<!\s)\s*+<\s*+memory-context\s*+>(.*?)<\s*+/\s*+memory-context\s*+>", re.DOTALL | re.IGNORECASE)
_FENCE_END = re.compile(r"<\s*+/\s*+memory-context\s*+>", re.IGNORECASE)

REMOVED = '{"note": "removed: this was recalled, and has been forgotten since"}'
"""The text that replaces a tool's result if the result is removed as a whole."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The new text and the removed ids. The text is None if only the person's words are left."""

    text: str | None
    gone: tuple[LineId, ...]


def sent_ids(content: str, sent: str) -> set[LineId]:
    """The ids of the recalled lines in a text that was sent to the model."""
    return {LineId(found[1]) for found in _LINE.finditer(sent[len(_said(content, sent)) :])}


def cut_sent(content: str, sent: str, is_gone: IsGone) -> Cut:
    """Remove forgotten lines from a text that was sent to the model. The text is None if only the person's words are
    left.
    """
    said = _said(content, sent)
    tail, gone = _without(sent[len(said) :], is_gone)
    if not gone:
        return Cut(sent, ())
    text = said + tail if tail.strip() else said
    return Cut(None if text == content else text, gone)


def result_ids(content: str) -> set[LineId]:
    """Every id in a tool's result."""
    return {LineId(one) for one in _ANY_ID.findall(content)}


def cut_result(content: str, is_gone: IsGone) -> Cut:
    """Remove forgotten lines from a tool's result."""
    gone = tuple(sorted(one for one in result_ids(content) if is_gone(one)))
    if not gone:
        return Cut(content, ())
    text = _pruned_result(content, is_gone)
    left = result_ids(text)
    return Cut(REMOVED if left.intersection(gone) else text, gone)


def _said(content: str, sent: str) -> str:
    """The person's words in a text that was sent to the model."""
    return content if sent.startswith(content) else ""


def _without(text: str, is_gone: IsGone) -> tuple[str, tuple[LineId, ...]]:
    gone: list[LineId] = []

    def line(found: re.Match[str]) -> str:
        if not is_gone(LineId(found[1])):
            return found[0]
        gone.append(LineId(found[1]))
        return ""

    def block(found: re.Match[str]) -> str:
        before = len(gone)
        body = _LINE.sub(line, found[1])
        if len(gone) == before:
            return found[0]
        if not _LINE.search(body):
            return ""
        return text[found.start() : found.start(1)] + body + text[found.end(1) : found.end()]

    # Only up to the last end tag: without one, the pattern would scan the rest from every begin tag.
    fenced = max((end.end() for end in _FENCE_END.finditer(text)), default=0)
    outside = _FENCE.sub(block, text[:fenced]) + text[fenced:]
    return _LINE.sub(line, outside), tuple(gone)


class _Gone:
    """Stands for a removed JSON value."""


_GONE = _Gone()


def _pruned_result(content: str, is_gone: IsGone) -> str:
    try:
        document = json.loads(content)
        left = _pruned(document, is_gone)
    except (ValueError, RecursionError):
        return _without(content, is_gone)[0]
    return REMOVED if left is _GONE else json.dumps(left, ensure_ascii=False)


def _pruned(value: object, is_gone: IsGone) -> object:
    """A JSON value without the entries of forgotten lines, and with forgotten lines removed from its texts."""
    if isinstance(value, str):
        return _without(value, is_gone)[0]
    if isinstance(value, list):
        return [kept for kept in _all(value, is_gone) if kept is not _GONE]
    if isinstance(value, dict):
        named = value.get("id")
        if isinstance(named, str) and _ANY_ID.fullmatch(named) and is_gone(LineId(named)):
            return _GONE
        pairs = zip(value, _all(value.values(), is_gone), strict=True)
        return {name: kept for name, kept in pairs if kept is not _GONE}
    return value


def _all(values: Iterable[object], is_gone: IsGone) -> Iterable[object]:
    return (_pruned(one, is_gone) for one in values)
