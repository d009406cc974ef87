"""What a provider recalled, as a turn may show it: within a budget, fenced once, fences inside it made harmless.

`strongroom.fence` puts the marks; this adds what only a host must know: other runtimes' fences, which a provider or a
stored line may hold, and how recalled text that a reply repeats is kept from being stored again.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from strongroom import fence

_OTHERS = re.compile(r"<\s*/?\s*(memory-context|memory-provider-context)\b", re.IGNORECASE)
_NOTES = re.compile(r"\[\s*system\s+note\s*:", re.IGNORECASE)


def fence_recall(text: str, budget: int, mark: str) -> str:
    """Recalled text for a model, or nothing where there is nothing to show."""
    text = text.strip()
    if not text:
        return ""
    # Cut before it is neutralised, which takes time, and after, which can make it longer.
    body = within(harmless(fence.neutral(within(text, budget))), budget)
    return f"{fence.NOTICE}\n{fence.between(body, mark)}"


def harmless(text: str) -> str:
    """The text without anything that passes for another runtime's fence."""
    return _NOTES.sub("[quoted note:", _OTHERS.sub("[quoted]", text))


def within(text: str, budget: int) -> str:
    """At most `budget` characters, cut at the end of a line where there is one, and a note of what is missing."""
    if len(text) <= budget:
        return text
    head = text[:budget]
    cut = head.rfind("\n")
    head = head[:cut] if cut > budget // 2 else head
    return f"{head}\n[{len(text) - len(head)} more characters were left out]"


def writable(text: str) -> str:
    """The text as it can be written down: half a surrogate pair, which no encoding knows, becomes a question mark."""
    return str.encode(text, "utf-8", "replace").decode()  # a text of another class could have its own `encode`


def without_recalled(text: str, marks: Collection[str]) -> str:
    """What was said, without blocks that this host has shown under one of these marks: they are remembered already.

    Only such blocks: a text that merely looks like one is what somebody said.
    """
    for mark in marks:
        first, last = fence.edges(mark)
        while 0 <= (start := text.find(first)) < (end := text.find(last, start)):
            text = text[:start].removesuffix(f"{fence.NOTICE}\n") + text[end + len(last) :]
    return text
