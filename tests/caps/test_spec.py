"""The page that specifies caps says what the code does: its tables, its header, its limits and its example."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from scripts.vectors_cap import SMALL_ORDER, b64, link_id, unb64

from strongroom import model
from strongroom.caps import chain
from strongroom.caps.claims import HEADER, Narrowing
from strongroom.errors import BY_REASON
from strongroom.model import DataClass, Op

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "docs" / "spec" / "cap.md").read_text()


def _section(heading: str) -> str:
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", SPEC, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no section {heading}"
    return found[1]


def _first_cells(heading: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", _section(heading), re.MULTILINE)


@pytest.mark.requirement("cap-closed")
def test_page_lists_every_claim_in_its_order_on_the_wire() -> None:
    assert _first_cells("Link 0") == list(chain.Grantable.__struct_fields__)
    assert _first_cells("Later links") == list(Narrowing.__struct_fields__)


def test_page_says_which_claims_must_be_there() -> None:
    for heading, claims in (("Link 0", chain.Grantable), ("Later links", Narrowing)):
        must = re.findall(r"^\| `(\w+)` \| \w+ \| yes \|", _section(heading), re.MULTILINE)
        assert must == [field for field in claims.__struct_fields__ if _is_required(claims, field)]


def _is_required(claims: type[chain.Grantable] | type[Narrowing], name: str) -> bool:
    return "None" not in str(claims.__annotations__[name])


def test_page_lists_every_op_and_data_class() -> None:
    row = re.search(r"^\| `ops` .*$", _section("Link 0"), re.MULTILINE)
    assert row
    assert re.findall(r"`(\w+)`", row[0])[1:] == sorted(Op)
    row = re.search(r"^\| `data_class` .*$", _section("Link 0"), re.MULTILINE)
    assert row
    assert re.findall(r"`(\w+)`", row[0])[1:] == list(DataClass)


@pytest.mark.requirement("cap-small-order")
def test_page_lists_every_encoding_of_small_order() -> None:
    listed = re.findall(r"^\| [1248] \| `([0-9a-f]{64})` \|$", SPEC, re.MULTILINE)
    assert sorted(listed) == sorted(key.hex() for key in SMALL_ORDER.values())


def test_page_shows_the_header() -> None:
    assert f'header     = "{HEADER}"' in SPEC
    assert unb64(HEADER).decode() in SPEC
    assert len(unb64(HEADER)) == 40


@pytest.mark.requirement("cap-limits-first")
def test_page_gives_the_limits() -> None:
    assert f"| bytes of a token | {chain.MAX_BYTES} |" in SPEC
    assert f"| links | {chain.MAX_LINKS} |" in SPEC
    assert f"is more than {chain.LEEWAY} s after" in SPEC
    assert f"1 to {model.K_LIMIT}: how many lines" in SPEC


def test_page_names_every_reason_of_a_cap_and_no_other() -> None:
    named = set(re.findall(r"`(cap_[a-z_]+)`", SPEC))
    assert named == {reason for reason in BY_REASON if reason.startswith("cap_")}


def test_example_is_the_vector() -> None:
    token = json.loads((ROOT / "tests" / "vectors" / "cap" / "ok-bearer.json").read_bytes())["token"]
    claims = re.findall(r"^```json\n(\{\"v\".*)\n```$", SPEC, re.MULTILINE)
    assert [b64(one.encode()) for one in claims] == [token.split(".")[1]]
    assert f"`{link_id(token)}`" in SPEC
