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
@pytest.mark.parametrize(("name", "least"), [("ordinary_later", 130), ("ordinary_latest", 110)])
def test_ordinary_sentences_of_later_stay_as_they_are(name: str, least: int) -> None:
    found = labels.rows(name)
    assert len(found) > least
    assert len(labels.changed(found)) <= 0.01 * len(found)


@pytest.mark.requirement("labels-secrets")
@pytest.mark.parametrize("name", ["secrets", "secrets_later", "secrets_latest"])
def test_labelled_secrets_are_masked_whole(name: str) -> None:
    found = [row for row in labels.rows(name) if not row.get("optional")]
    assert len(found) >= 120
    assert len(labels.missed_secrets(found)) <= 0.05 * len(found)


@pytest.mark.requirement("labels-routing")
@pytest.mark.parametrize(("name", "least"), [("routing", 180), ("routing_later", 80)])
def test_labelled_sensitive_texts_stay_sensitive_and_others_are_no_nuisance(name: str, least: int) -> None:
    found = labels.rows(name)
    sensitive = [row for row in found if row["namespace"] == "personal"]
    assert len(sensitive) > least
    assert len(labels.leaks(found)) <= 0.05 * len(sensitive)
    assert len(labels.unseen(found)) <= 0.05 * len(sensitive)
    assert len(labels.nuisances(found)) <= 0.05 * (len(found) - len(sensitive))
