"""The pictures are what their script draws, each has its page, and a text that does not fit is noticed."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from scripts.calibration_plot import calibration, points
from scripts.make_pictures import IMAGES, PICTURES
from scripts.picture import Box, Curve, Picture, svg

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


TABLE = """
| confidence | one | two | three |
| --- | --- | --- | --- |
| 0.00 to 0.02 | 0.010 / 0.000 (1,234) | | 0.010 / 0.020 (20) |
| 0.02 to 0.50 | 0.300 / 0.410 (20) | 0.200 / 0.100 (500) | 0.400 / 0.900 (19) |
"""


@pytest.mark.requirement("project-docs")
def test_plot_has_a_point_for_each_bin_of_enough_lines() -> None:
    assert points(TABLE) == {"one": [(0.01, 0.0), (0.3, 0.41)], "two": [(0.2, 0.1)], "three": [(0.01, 0.02)]}
    drawn = calibration(TABLE)
    assert sum(isinstance(shape, Curve) for shape in drawn.shapes) == 6
    assert svg(drawn).count("<circle") == 4 + 2 * 3


@pytest.mark.requirement("project-docs")
def test_page_without_a_table_of_confidence_has_no_plot() -> None:
    with pytest.raises(ValueError, match="no table of confidence"):
        calibration("# Recall")
