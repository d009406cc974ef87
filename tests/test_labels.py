"""The rules over text against sentences that somebody else labelled beforehand. What is wrong is listed by
`python -m tests.labels`."""

from __future__ import annotations

import pytest

from tests import labels


@pytest.mark.requirement("labels-secrets")
def test_ordinary_sentences_stay_as_they_are() -> None:
    found = labels.rows("ordinary")
    assert len(found) > 300
    assert len(labels.changed(found)) <= 0.01 * len(found)


@pytest.mark.requirement("labels-secrets")
def test_labelled_secrets_are_masked_whole() -> None:
    found = [row for row in labels.rows("secrets") if not row.get("optional")]
    assert len(found) >= 130
    assert len(labels.missed_secrets(found)) <= 0.05 * len(found)


@pytest.mark.requirement("labels-routing")
def test_labelled_sensitive_texts_stay_sensitive_and_others_are_no_nuisance() -> None:
    found = labels.rows("routing")
    sensitive = [row for row in found if row["namespace"] == "personal"]
    assert len(sensitive) > 180
    assert len(labels.leaks(found)) <= 0.05 * len(sensitive)
    assert len(labels.unseen(found)) <= 0.05 * len(sensitive)
    assert len(labels.nuisances(found)) <= 0.05 * (len(found) - len(sensitive))
