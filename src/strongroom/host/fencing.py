"""What a provider recalled, as a turn may show it: within a budget, fenced once, fences inside it made harmless.

`strongroom.fence` puts the marks; this adds what only a host must know: other runtimes' fences, which a provider or a
stored line may hold, and how recalled text that a reply repeats is kept from being stored again.
"""

from __future__ import annotations

import re

from strongroom import fence

_OTHERS = re.compile(r"<\s*/?\s*(memory-context|memory-provider-context)\b", re.IGNORECASE)
_NOTES = re.compile(r"\[\s*system\s+note\s*:", re.IGNORECASE)
_OPENS = re.compile(r"<<<(strongroom-recall) ([0-9a-f]{32})>>>|<(memory-context)>", re.IGNORECASE)
_MOST_BLOCKS = 64


def shown(text: str, budget: int, random: bytes) -> str:
    """Recalled text for a model, or nothing where there is nothing to show."""
    text = text.strip()
    if not text:
        return ""
    # Cut before it is neutralised, which takes time, and after, which can make it longer.
    body = within(harmless(fence.neutral(within(text, budget))), budget)
    return f"{fence.NOTICE}\n{fence.between(body, fence.mark_of(random))}"


def harmless(text: str) -> str:
    """The text without anything that passes for another runtime's fence."""
    return _NOTES.sub("[quoted note:", _OTHERS.sub("[quoted]", text))


def within(text: str, budget: int) -> str:
    """At most `budget` characters, cut at the end of a line where there is one, and said so."""
    if len(text) <= budget:
        return text
    head = text[:budget]
    cut = head.rfind("\n")
    head = head[:cut] if cut > budget // 2 else head
    return f"{head}\n[{len(text) - len(head)} more characters were left out]"


def writable(text: str) -> str:
    """The text as it can be written down: half a surrogate pair, which no encoding knows, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def without_recalled(text: str) -> str:
    """What was said, without blocks that were recalled: those are remembered already."""
    kept: list[str] = []
    place = 0
    for _ in range(_MOST_BLOCKS):  # a text made of openings alone must not take long
        opening = _OPENS.search(text, place)
        if opening is None:
            break
        close = f"</{opening[3]}>" if opening[3] else f"<<<end-{opening[1]} {opening[2]}>>>"
        closing = re.compile(re.escape(close), re.IGNORECASE).search(text, opening.end())
        kept.append(text[place : opening.start() if closing else opening.end()])
        place = closing.end() if closing else opening.end()
    if not place:
        return text
    return "".join((*kept, text[place:])).replace(fence.NOTICE, "").strip()
