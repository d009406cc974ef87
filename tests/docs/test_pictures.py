"""The pictures are what their script draws, each has its page, and a text that does not fit is noticed."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from scripts.make_pictures import IMAGES, PICTURES
from scripts.picture import Box, Picture, svg

from tests.docs.pages import pages


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_picture_is_what_the_script_draws(picture: Picture) -> None:
    drawn = svg(picture)
    assert (IMAGES / f"{picture.name}.svg").read_text() == drawn
    assert ElementTree.fromstring(drawn).tag.endswith("svg")


@pytest.mark.requirement("project-docs")
def test_every_picture_has_a_script_and_a_page() -> None:
    shown = {name for page in pages() for name in re.findall(r"\]\([\w/.]*images/(\w+)\.svg\)", page.read_text())}
    assert shown == {picture.name for picture in PICTURES} == {file.stem for file in IMAGES.iterdir()}


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize("box", [Box((0, 0, 60, 60), "a title too long"), Box((0, 0, 200, 30), "a", ["b", "c"])])
def test_text_that_does_not_fit_its_box_is_noticed(box: Box) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        svg(Picture("none", "none", "none", 100, 100, [box]))
