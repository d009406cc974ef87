"""The OpenAPI document: it is what the server does, and the copy in docs/ is what the server serves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strongroom import api
from strongroom.model import NewLine
from strongroom.server.http import openapi
from strongroom.server.http.application import Application
from tests.server.conftest import QUIET
from tests.server.running import Running

ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = json.loads(openapi.encode_document())
OPERATIONS = {
    (method.upper(), path): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


@pytest.mark.requirement("server-openapi")
def test_copy_for_readers_has_not_drifted() -> None:
    assert json.loads((ROOT / "docs" / "openapi.json").read_bytes()) == DOCUMENT
    script = [sys.executable, str(ROOT / "scripts" / "make_openapi.py"), "--check"]
    assert subprocess.run(script, check=False).returncode == 0


@pytest.mark.requirement("server-openapi")
def test_served_document_is_the_one(served: Running) -> None:
    assert served.ask("GET", "/openapi.json").json == DOCUMENT


@pytest.mark.requirement("server-openapi")
def test_document_has_every_route_and_no_other(served: Running) -> None:
    app = Application(served.vault, QUIET)
    assert set(OPERATIONS) == {(method, path) for path, methods in app.routes.items() for method in methods}


@pytest.mark.requirement("server-openapi")
def test_every_call_says_that_it_needs_a_cap_and_nothing_else_does() -> None:
    calls = {(kind.method, kind.path) for kind in api.CALLS}
    assert {where for where, operation in OPERATIONS.items() if operation.get("security")} == calls


@pytest.mark.requirement("server-openapi", "gate-no-actor")
def test_no_memory_call_has_a_field_for_an_actor() -> None:
    """Names that reach into an actor's place; minting names one, and is held to what its cap covers."""
    for (_, path), operation in OPERATIONS.items():
        if path.startswith("/v1/memory"):
            asked = json.dumps(_resolved(operation.get("requestBody", {}))) + json.dumps(
                operation.get("parameters", [])
            )
            assert '"actor' not in asked


@pytest.mark.requirement("server-openapi")
def test_every_body_refuses_unknown_fields_in_the_document_too() -> None:
    """`NewLine` inside a put as well: what the schema allows and the server refuses would be a lie."""
    for operation in OPERATIONS.values():
        for schema in _objects(_resolved(operation.get("requestBody", {}))):
            is_own_json = "properties" not in schema
            assert schema.get("additionalProperties") is is_own_json, schema.get("title")


@pytest.mark.requirement("server-openapi")
def test_request_field_with_a_default_is_optional_for_generators_too() -> None:
    """openapi-typescript takes a field with a `default` for one that is always there: scripts/try_generators.py."""
    for schema in DOCUMENT["components"]["schemas"].values():
        assert not any("default" in told for told in schema.get("properties", {}).values())
    kinds: list[type[msgspec.Struct]] = [*api.CALLS, NewLine]
    for kind in kinds:
        schema = DOCUMENT["components"]["schemas"].get(kind.__name__)
        if schema is None:  # it has no body
            continue
        fields = msgspec.structs.fields(kind)
        assert schema["required"] == [one.name for one in fields if one.required]
        for one in fields:
            told = schema["properties"][one.name].get("description", "")
            assert one.required or one.default is None or json.dumps(one.default) in told


@pytest.mark.requirement("server-openapi")
@pytest.mark.parametrize("answer", sorted({kind.answer for kind in api.CALLS}, key=str))
def test_answer_field_that_is_always_there_is_required(answer: type[msgspec.Struct]) -> None:
    assert DOCUMENT["components"]["schemas"][answer.__name__]["required"] == list(answer.__struct_fields__)


@pytest.mark.requirement("server-openapi", "error-tables")
def test_every_reason_a_server_can_give_is_in_the_document() -> None:
    said = json.dumps([operation["responses"] for operation in OPERATIONS.values()])
    assert [reason for reason in api.STATUS if f"`{reason}`" not in said and api.STATUS[reason] != 404] == []


def _resolved(value: Any, depth: int = 0) -> Any:
    """A piece of the document with what it refers to put in its place."""
    assert depth < 30
    if isinstance(value, dict):
        if "$ref" in value:
            return _resolved(DOCUMENT["components"]["schemas"][value["$ref"].rpartition("/")[2]], depth + 1)
        return {name: _resolved(one, depth + 1) for name, one in value.items()}
    if isinstance(value, list):
        return [_resolved(one, depth + 1) for one in value]
    return value


def _objects(value: Any) -> list[dict[str, Any]]:
    """Every schema of an object in a piece of the document."""
    if isinstance(value, list):
        return [found for one in value for found in _objects(one)]
    if not isinstance(value, dict):
        return []
    own = [value] if value.get("type") == "object" else []
    return own + [found for one in value.values() for found in _objects(one)]
