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


AMONG_PEOPLE = Weights(
    match=0.52,
    cover=2.36,
    session=1.7,
    best_of_session=1.98,
    context=2.6,
    question_before=1.13,
    date=2.5,
    asks=-0.17,
    assistant=-2.62,
    asked_assistant=0,
    says_when=1.26,
    says_how_many=2.03,
    says_name=0.88,
    substance=0.61,
    speaker=0.73,
    latest=0.5,
)

WITH_ASSISTANT = Weights(
    match=3.71,
    cover=0.92,
    session=2.02,
    best_of_session=-0.93,
    context=1.83,
    question_before=1.01,
    date=2.5,
    asks=-0.36,
    assistant=-3.67,
    asked_assistant=4.53,
    says_when=3.76,
    says_how_many=0.84,
    says_name=0.48,
    substance=0.24,
    speaker=0.7,
    latest=0.55,
)

CONFIDENCE = ConfidenceWeights(cover=0.71, context=2.23, lead=0.3, bias=-4.4)
