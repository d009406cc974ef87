"""The page of concepts explains every operation, class of data and namespace that there is from the start."""

from __future__ import annotations

import pytest

from strongroom.model import DEFAULT_NAMESPACES, DataClass, Op
from tests.docs.pages import DOCS, section

WORDS = section(DOCS / "concepts.md", "## Words")


@pytest.mark.requirement("project-docs")
def test_concepts_page_names_every_operation_and_class() -> None:
    assert not [word for word in (*Op, *DataClass) if f"`{word}`" not in WORDS]


@pytest.mark.requirement("project-docs", "seed-architecture")
def test_concepts_page_names_the_first_namespaces() -> None:
    assert not [name for name in DEFAULT_NAMESPACES if f"`{name}`" not in WORDS]
