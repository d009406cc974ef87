"""The weights of the signals and of confidence. `make fit` writes this file; docs/recall.md says from which data."""

from __future__ import annotations

from typing import NamedTuple


class Weights(NamedTuple):
    """One weight for each signal. `signals` and `python_reference` say what each signal is."""

    match: float
    cover: float
    session: float
    best_of_session: float
    context: float
    question_before: float
    date: float
    asks: float
    assistant: float
    asked_assistant: float
    says_when: float
    says_how_many: float
    says_name: float
    substance: float
    speaker: float
    latest: float


class ConfidenceWeights(NamedTuple):
    """How the confidence of a line follows from the evidence: the logistic function of their weighted sum."""

    cover: float
    """Weight of the largest share of the question's words that one line holds, unknown words counted."""
    context: float
    """Weight of the same share for a line together with its neighbours."""
    lead: float
    """Weight of the distance between this line's score and the best one."""
    bias: float


DEFAULT_FLOOR = 0.02
"""A confidence below which a line is hardly ever an answer. docs/recall.md says how many lines it costs."""

AMONG_PEOPLE = Weights(
    match=0.51,
    cover=2.36,
    session=1.7,
    best_of_session=1.97,
    context=2.6,
    question_before=1.13,
    date=2.5,
    asks=-0.17,
    assistant=-2.62,
    asked_assistant=0,
    says_when=1.25,
    says_how_many=2.04,
    says_name=0.88,
    substance=0.61,
    speaker=0.73,
    latest=0.5,
)

WITH_ASSISTANT = Weights(
    match=3.9,
    cover=0.6,
    session=2.17,
    best_of_session=-1.06,
    context=1.78,
    question_before=0.99,
    date=2.5,
    asks=-0.34,
    assistant=-3.68,
    asked_assistant=4.54,
    says_when=3.7,
    says_how_many=0.81,
    says_name=0.46,
    substance=0.31,
    speaker=0.7,
    latest=0.76,
)

CONFIDENCE = ConfidenceWeights(cover=0.68, context=2.26, lead=0.3, bias=-4.41)
