"""The reason for which a turn with a question would show a line to the model, or would not. Pure.

The gate, the ranking and the confidence come from the vault (`get` with `explain`). Here are the rules of the provider
itself: small talk, the policy's limits, and echoes of the question.
"""

from __future__ import annotations

from strongroom.hermes.policy import Recall
from strongroom.hermes.provider import dedupe
from strongroom.hermes.provider.speaker import ASSISTANT
from strongroom.memory.ops.explain import CANDIDATES
from strongroom.model import Hit, Why

_SHOWN = "unless the line was shown in the conversation before, or recall.characters leaves no room"


def reason(hit: Hit, why: Why, question: str, recall: Recall) -> str:
    """Say whether the line would be recalled, and why not. The first rule that leaves the line out is named."""
    if dedupe.is_small_talk(question):
        return "no: nothing is recalled for small talk"
    if not why.rank:
        return f"no: the line does not match the question, or {CANDIDATES} lines match better"
    if why.cut == "floor":
        return f"no: its confidence is below recall.min_confidence of the policy, {recall.min_confidence:g}"
    if hit.score <= 0 and not hit.standing:
        return "no: the line hardly matches the question"
    if not dedupe.without_echoes([hit], question, ASSISTANT):
        return "no: the line only repeats the question, or is a reply without news"
    if why.rank > recall.lines:
        return f"no: lines that match better come first, and the policy's recall.lines is {recall.lines}"
    return f"yes, {_SHOWN}"
