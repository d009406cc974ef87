"""The kit's findings as text for a terminal, as Markdown, and as JSON. Reproducible: no times and no paths."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from strongroom.host.conformance.verdict import Outcome, Result

_SHORT = {Outcome.PASS: "pass", Outcome.FAIL: "FAIL", Outcome.NOT_APPLICABLE: "n/a"}
_COUNTED = {Outcome.PASS: "passed", Outcome.FAIL: "failed", Outcome.NOT_APPLICABLE: "not applicable"}
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Report:
    """The outcomes of all checks of one provider."""

    subject: str
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    """The parts of the provider that could not be tested, in sentences."""

    @property
    def failed(self) -> tuple[Result, ...]:
        return tuple(one for one in self.results if one.outcome is Outcome.FAIL)

    def count(self, outcome: Outcome) -> int:
        return sum(one.outcome is outcome for one in self.results)

    @property
    def summary(self) -> str:
        """The number of checks for each outcome, as a sentence that includes the notes."""
        counts = [f"{self.count(outcome)} {words}" for outcome, words in _COUNTED.items()]
        checks = "1 check" if len(self.results) == 1 else f"{len(self.results)} checks"
        return "; ".join([f"{checks} of {self.subject}: {', '.join(counts)}", *self.notes])

    def text(self) -> str:
        """A table for a terminal: each check with its question, and the reason if the check did not pass."""
        return "\n".join([*(f"note: {one}" for one in self.notes), *self._rows(), "", self.summary])

    def markdown(self) -> str:
        """A table in Markdown: each check with its outcome and its reason."""
        rows = [
            f"| `{one.check.id}` | {_SHORT[one.outcome]} | {_cell(one.check.title)} | {_cell(one.reason)} |"
            for one in self.results
        ]
        head = ["| check | outcome | what holds if it passes | what was seen |", "|---|---|---|---|"]
        return "\n".join([f"{self.summary}.", "", *head, *rows, ""])

    def document(self) -> dict[str, Any]:
        """The report as values for JSON."""
        counts = {outcome.value.replace(" ", "_"): self.count(outcome) for outcome in Outcome}
        checks = [
            {
                "id": one.check.id,
                "title": one.check.title,
                "outcome": one.outcome.value.replace(" ", "_"),
                "reason": one.reason,
                "does": one.check.does,
                "why": one.check.why,
            }
            for one in self.results
        ]
        known = {"provider": self.subject, "ok": not self.failed, "notes": list(self.notes)}
        return {**known, "counts": counts, "checks": checks}

    def _rows(self) -> Iterator[str]:
        wide = max((len(one.check.id) for one in self.results), default=0)
        for one in self.results:
            yield f"{_SHORT[one.outcome]:4}  {one.check.id:{wide}}  {one.check.title}"
            for line in _said(one):
                margin = " " * (wide + 8)
                yield from textwrap.wrap(line, _WIDTH, initial_indent=margin, subsequent_indent=margin)


def _said(result: Result) -> list[str]:
    """The lines to print below a check: none if the check passed, and help for the repair if it failed."""
    if result.outcome is Outcome.FAIL:
        return [f"Seen: {result.reason}", f"Done: {result.check.does}", f"Why: {result.check.why}"]
    return [result.reason] if result.outcome is Outcome.NOT_APPLICABLE and result.reason else []


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
