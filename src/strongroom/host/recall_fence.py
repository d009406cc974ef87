"""Recalled text as a turn may show it: within a budget, in one fence, with other fences inside made harmless.

`strongroom.fence` makes the marks of the fence. This module handles the fences of other runtimes, which a provider or a
stored line may contain. It also removes recalled text from turns before they are stored.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from strongroom import fence

_OTHERS = re.compile(r"<\s*/?\s*(memory-context|memory-provider-context)\b", re.IGNORECASE)
_NOTES = re.compile(r"\[\s*system\s+note\s*:", re.IGNORECASE)


def fence_recall(text: str, budget: int, mark: str) -> str:
    """Put recalled text into a fence. An empty text stays empty."""
    text = text.strip()
    if not text:
        return ""
    # Cut before neutralising, which takes time, and again after it, because it can lengthen the text.
    body = within(harmless(fence.neutral(within(text, budget))), budget)
    return f"{fence.NOTICE}\n{fence.between(body, mark)}"


def harmless(text: str) -> str:
    """The text without anything that could pass for another runtime's fence."""
    return _NOTES.sub("[quoted note:", _OTHERS.sub("[quoted]", text))


def within(text: str, budget: int) -> str:
    """Cut a text to `budget` characters, and add a note with the number of missing characters.

    The cut is at a line end, if the second half of the text has a line end.
    """
    if len(text) <= budget:
        return text
    head = text[:budget]
    cut = head.rfind("\n")
    head = head[:cut] if cut > budget // 2 else head
    return f"{head}\n[{len(text) - len(head)} more characters were left out]"


def writable(text: str) -> str:
    """The text in a form that can be encoded: half a surrogate pair becomes a question mark."""
    return str.encode(text, "utf-8", "replace").decode()  # str.encode, because a subclass could override encode


def without_recalled(text: str, marks: Collection[str]) -> str:
    """The text without the fenced blocks that this host showed under these marks. Their lines are stored already.

    Other text that merely looks like such a block stays.
    """
    for mark in marks:
        first, last = fence.edges(mark)
        while 0 <= (start := text.find(first)) < (end := text.find(last, start)):
            text = text[:start].removesuffix(f"{fence.NOTICE}\n") + text[end + len(last) :]
    return text
