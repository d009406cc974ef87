"""The reason for which a turn with a question would show a line to the model, or would not. Pure.

The gate, the ranking and the confidence come from the vault (`get` with `explain`). Here are the rules of the provider
itself: small talk, the policy's limits, echoes of the question, and lines found by their neighbours only.
"""

from __future__ import annotations

from datetime import date

from strongroom.hermes.policy import Recall
from strongroom.hermes.provider import dedupe, fitting_lines
from strongroom.hermes.provider.speaker import ASSISTANT
from strongroom.memory.ops.explain import CANDIDATES
from strongroom.model import Hit, Why

_SHOWN = "if it was not shown in the conversation before and recall.characters leaves room"
_SURER = "; not if another line is more than twice as likely to answer"


def reason(hit: Hit, why: Why, question: str, today: date, recall: Recall) -> str:
    """Say whether the line would be recalled, and why not. The first rule that leaves the line out is named."""
    if dedupe.is_small_talk(question):
        return "no: nothing is recalled for small talk"
    if not why.rank:
        return f"no: the line does not match the question, or {CANDIDATES} lines match better"
    if why.cut == "floor":
        return f"no: its confidence is below recall.min_confidence of the policy, {recall.min_confidence:g}"
    if fitting_lines.is_standing_only(hit):
        return f"yes, as a standing instruction, if it is among the first {recall.standing} and {_SHOWN}"
    if hit.score <= 0:
        return "no: the line hardly matches the question"
    if not recall.neighbours and not fitting_lines.with_own_match([hit], question, today):
        return "no: the line shares no word with the question, and recall.neighbours of the policy is false"
    if not dedupe.without_echoes([hit], question, ASSISTANT):
        return "no: the line only repeats the question, or is a reply without news"
    if why.rank > fitting_lines.number_of_lines(recall):
        return f"no: lines that match better come first, and the policy's recall.lines is {recall.lines}"
    return f"yes, {_SHOWN}{_SURER if recall.min_confidence else ''}"
