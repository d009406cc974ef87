"""Fits the weights of the default engine, on data whose licences allow it: FriendsQA and LongMemEval.

    make fit                # fit, cross-validate, and print the figures; nothing is changed
    make fit WRITE=1        # and write src/strongroom/engines/lexical/weights.py

Talk among people is fitted on FriendsQA, talk with an assistant on LongMemEval. LoCoMo and BEAM are measured only: no
weight is fitted on them. The loss is that of a softmax over the lines that a question finds (which of them answers?),
with a penalty for large weights. Confidence is a logistic regression over the best ten lines, of the pool's own
questions and of another pool's, which have no answer in it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from bench import evaldata, packed_sets
from bench.evaldata import NoData, Pool
from bench.fit_features import SIGNALS, Found, Numbers, found_in
from strongroom.engines.lexical import weights as known
from strongroom.engines.lexical.weights import ConfidenceWeights, Weights

PENALTY = 0.01
LEAD = 0.3
"""The weight of a line's distance from the best score in its confidence. Chosen, not fitted: with more, a low floor
would cut single lines of good answers before it silences bad ones."""
FOLDS = 5
DEPTH = 10
AMONG_PEOPLE = {"assistant": -2.62, "asked_assistant": 0.0, "latest": 0.5, "date": 2.5}
WITH_ASSISTANT = {"speaker": 0.7, "date": 2.5}
"""Weights that are not fitted. These signals do not occur in the data of the one sort or the other, or too rarely: for
`date`, see docs/recall.md."""
FILE = Path(known.__file__)


def fit(questions: Sequence[Found], fixed: dict[str, float]) -> Numbers:
    """The weights under which the lines that answer are the most probable."""
    asked = [one for one in questions if one.answers.any()]
    rows = np.concatenate([one.signals for one in asked])
    sizes = [len(one.signals) for one in asked]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    of = np.repeat(np.arange(len(asked)), sizes)
    wanted = np.concatenate([one.answers / one.answers.sum() for one in asked]) / len(asked)
    free = [at for at, name in enumerate(SIGNALS) if name not in fixed]
    base = np.array([fixed.get(name, 0.0) for name in SIGNALS])
    columns, offset = rows[:, free], rows @ base
    spread = columns.std(0) + 1e-9

    def loss(weights: Numbers) -> tuple[float, Numbers]:
        scores = columns @ weights + offset
        scores -= np.maximum.reduceat(scores, starts)[of]
        powers = np.exp(scores)
        totals = np.add.reduceat(powers, starts)
        scaled = weights * spread
        value = -(wanted * (scores - np.log(totals)[of])).sum() + PENALTY * (scaled**2).sum()
        slope = columns.T @ (powers / totals[of] / len(asked) - wanted) + 2 * PENALTY * scaled * spread
        return float(value), slope

    found = base.copy()
    found[free] = minimize(loss, np.zeros(len(free)), jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    return found


def fit_confidence(own: Sequence[Found], others: Sequence[Found], weights: Numbers) -> ConfidenceWeights:
    """The logistic regression of "this line answers" on the evidence."""
    rows, answers, shares = [], [], []
    for questions in (own, others):
        for one in questions:
            scores = one.signals @ weights
            for at in np.argsort(-scores, kind="stable")[:DEPTH]:
                rows.append([one.cover, one.context, LEAD * (scores[at] - scores.max()), 1.0])
                answers.append(float(one.answers[at]))
                shares.append(1 / len(questions))
    x, y, w = np.array(rows), np.array(answers), np.array(shares) / sum(shares)

    def loss(free: Numbers) -> tuple[float, Numbers]:
        odds = x[:, [0, 1, 3]] @ free + x[:, 2]
        sure = 1 / (1 + np.exp(-odds))
        value = -(w * (y * np.log(sure + 1e-12) + (1 - y) * np.log(1 - sure + 1e-12))).sum()
        return float(value), x[:, [0, 1, 3]].T @ (w * (sure - y))

    cover, context, bias = minimize(loss, np.zeros(3), jac=True, method="L-BFGS-B").x
    return ConfidenceWeights(round(float(cover), 2), round(float(context), 2), LEAD, round(float(bias), 2))


def recall(questions: Sequence[Found], weights: Numbers) -> tuple[float, float]:
    """R@5 and R@10 in percent, by the signals alone: what is done with the best lines afterwards is left out."""
    shares = []
    for one in questions:
        if one.sought:
            best = np.argsort(-(one.signals @ weights), kind="stable")
            shares.append([one.answers[best[:k]].sum() / one.sought for k in (5, 10)])
    five, ten = 100 * np.mean(shares, axis=0)
    return float(five), float(ten)


def out_of_fold(pools: Sequence[Sequence[Found]], fixed: dict[str, float]) -> tuple[float, float]:
    """Recall where each pool is asked with weights that were fitted without it."""
    figures, counts = [], []
    for fold in range(FOLDS):
        kept = [one for at, pool in enumerate(pools) if at % FOLDS != fold for one in pool]
        asked = [one for at, pool in enumerate(pools) if at % FOLDS == fold for one in pool]
        figures.append(recall(asked, fit(kept, fixed)))
        counts.append(sum(one.sought > 0 for one in asked))
    five, ten = np.average(figures, axis=0, weights=counts)
    return float(five), float(ten)


def _of(load: Callable[[], Iterator[Pool]]) -> tuple[list[list[Found]], list[Found]]:
    """What the questions of each pool find in it, and what those of the next pool find."""
    pools = list(load())
    others = [
        one
        for pool, after in zip(pools, [*pools[1:], pools[0]], strict=True)
        for one in found_in(pool, after.questions)
    ]
    return [list(found_in(pool)) for pool in pools], others


def _all(pools: Sequence[Sequence[Found]]) -> list[Found]:
    return [one for pool in pools for one in pool]


def _both() -> Iterator[Pool]:
    yield from evaldata.longmemeval()
    yield from packed_sets.longmemeval_fit()


def main(args: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the weights into the engine")
    write = parser.parse_args(args).write
    try:
        people, others_of_people = _of(packed_sets.friendsqa)
        assisted, others_of_assisted = _of(_both)
        checks = {"LoCoMo, first half": _of(evaldata.locomo)[0], "BEAM 100K": _of(packed_sets.beam)[0]}
    except NoData as missing:
        sys.exit(f"fit: {missing}")
    among, with_one = fit(_all(people), AMONG_PEOPLE), fit(_all(assisted), WITH_ASSISTANT)
    confidence = fit_confidence(
        _all(people) + _all(assisted), others_of_people + others_of_assisted, (among + with_one) / 2
    )
    print("set                      fitted on   out of fold R@5/R@10   with all of it R@5/R@10")
    for name, pools, fixed, weights in (
        ("FriendsQA", people, AMONG_PEOPLE, among),
        ("LongMemEval, 167 of 500", assisted, WITH_ASSISTANT, with_one),
    ):
        print(f"{name:24} yes         {_shown(out_of_fold(pools, fixed)):22} {_shown(recall(_all(pools), weights))}")
    for (name, pools), weights in zip(checks.items(), (among, with_one), strict=True):
        print(f"{name:24} no          {'-':22} {_shown(recall(_all(pools), weights))}")
    tables = {"AMONG_PEOPLE": _rounded(among), "WITH_ASSISTANT": _rounded(with_one)}
    for name, table in tables.items():
        print(f"\n{name}: " + ", ".join(f"{signal} {weight:g}" for signal, weight in table._asdict().items()))
    print(f"\nCONFIDENCE: {confidence}")
    if write:
        FILE.write_text(_written(FILE.read_text(), tables, confidence))
        print(f"\nwrote {FILE.name}")


def _shown(figures: tuple[float, float]) -> str:
    return f"{figures[0]:.1f}/{figures[1]:.1f}"


def _rounded(weights: Numbers) -> Weights:
    return Weights(*[round(float(weight), 2) + 0.0 for weight in weights])


def _written(text: str, tables: dict[str, Weights], confidence: ConfidenceWeights) -> str:
    """The file of the weights with new numbers."""
    head = text[: text.index("AMONG_PEOPLE = ")]
    parts = [
        f"{name} = Weights(\n"
        + "".join(f"    {signal}={weight:g},\n" for signal, weight in table._asdict().items())
        + ")\n"
        for name, table in tables.items()
    ]
    last = ", ".join(f"{name}={weight:g}" for name, weight in confidence._asdict().items())
    return head + "\n".join([*parts, f"CONFIDENCE = ConfidenceWeights({last})\n"])


if __name__ == "__main__":
    main()
