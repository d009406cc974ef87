"""The committed vectors: each does what it says, and the generator still makes them byte for byte."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from scripts import vectors_cap

from strongroom.caps import chain
from strongroom.caps.chain import Cap
from strongroom.errors import BY_REASON, Denied

VECTORS = Path(__file__).parents[1] / "vectors" / "cap"
FILES = sorted(VECTORS.glob("*.json"))


def _result(vector: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    issuers = {name: bytes.fromhex(key) for name, key in vector["issuers"].items()}
    try:
        held = chain.verify(vector["token"], issuers, vector["audience"], vector["now"])
    except Denied as denial:
        return denial.reason, {}
    return "ok", _authority(held)


def _authority(held: Cap) -> dict[str, Any]:
    allowed = {field.name: getattr(held, field.name) for field in fields(held)}
    sets = {"ops": sorted(held.ops), "namespaces": sorted(held.namespaces), "links": list(held.links)}
    return {**allowed, **sets}


@pytest.mark.requirement("project-vectors")
def test_vectors_cover_success_and_every_reason_of_verification() -> None:
    expected = {json.loads(path.read_bytes())["expect"] for path in FILES}
    assert expected == {
        "ok",
        "cap_missing",
        "cap_malformed",
        "cap_signature_invalid",
        "cap_holder_proof",
        "cap_audience",
        "cap_expired",
        "cap_not_yet_valid",
    }
    assert expected - {"ok"} <= set(BY_REASON)


@pytest.mark.requirement("project-vectors", "cap-closed")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_vector_does_what_it_says(path: Path) -> None:
    vector = json.loads(path.read_bytes())
    reason, authority = _result(vector)
    assert reason == vector["expect"], vector["description"]
    assert authority == vector.get("authority", {}), vector["description"]


@pytest.mark.requirement("project-vectors")
def test_vectors_regenerate_to_the_same_bytes(tmp_path: Path) -> None:
    vectors_cap.write(tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in VECTORS.iterdir()}


def test_writing_again_leaves_no_stale_vector(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("{}")
    vectors_cap.write(tmp_path)
    assert not (tmp_path / "old.json").exists()
    assert len(list(tmp_path.iterdir())) == len(FILES)
