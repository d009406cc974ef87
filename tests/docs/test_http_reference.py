"""The HTTP reference is what the code says: every route, field, limit, reason and header, with real examples."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from strongroom import api
from strongroom.model import NewLine
from strongroom.server.http import openapi
from tests.docs.pages import DOCS, ROOT, blocks, code, rows, section

PAGE = DOCS / "http.md"
TEXT = PAGE.read_text()
HEADINGS = {kind: f"### {kind.method} {kind.path}" for kind in api.CALLS}


@pytest.mark.requirement("docs-http")
def test_page_is_what_the_script_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "make_http_reference.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.requirement("docs-http")
def test_page_has_every_route_of_the_document_and_no_other() -> None:
    document = {(method.upper(), path) for path, methods in openapi.document()["paths"].items() for method in methods}
    calls = {tuple(found) for found in re.findall(r"^### (\w+) (\S+)$", TEXT, re.MULTILINE)}
    free = {("GET", code(cells[0])[0]) for cells in rows(section(PAGE, "## Without a cap, and MCP"))}
    assert calls | free - {("GET", "/mcp")} == document
    assert ("GET", "/mcp") in free


@pytest.mark.requirement("docs-http")
@pytest.mark.parametrize("kind", api.CALLS, ids=lambda kind: kind.__name__)
def test_route_names_its_cap_its_fields_and_its_answer(kind: type[api.Call[Any]]) -> None:
    text = section(PAGE, HEADINGS[kind])
    assert f"a cap of the class `{kind.data_class}` for `{kind.op}`" in text
    assert all(f"`{field}`" in text for field in kind.answer.__struct_fields__)
    expected = len(kind.__struct_fields__) + (len(NewLine.__struct_fields__) if kind is api.Put else 0)
    assert len(list(rows(text))) == expected


@pytest.mark.requirement("docs-http")
@pytest.mark.parametrize("kind", api.CALLS, ids=lambda kind: kind.__name__)
def test_example_of_a_route_is_a_success_that_reads_as_its_types(kind: type[api.Call[Any]]) -> None:
    example = re.search(r"```http\n(.*?)\n```", section(PAGE, HEADINGS[kind]), re.DOTALL)
    assert example is not None
    asked, answered = re.split(r"\n\n200\n", example[1])
    assert asked.startswith(f"{kind.method} {kind.path}")
    answer = json.loads(answered.partition("\n\n")[2] or answered)
    msgspec.convert(answer, kind.answer, strict=False)
    if kind.method == "POST":
        msgspec.convert(json.loads(asked.partition("\n\n")[2]), kind, strict=False)


@pytest.mark.requirement("docs-http", "error-tables")
def test_page_gives_each_reason_its_status() -> None:
    told = {reason: int(status) for status, reasons, _ in rows(section(PAGE, "## Errors")) for reason in code(reasons)}
    assert told == dict(api.STATUS)


@pytest.mark.requirement("docs-http")
def test_no_example_holds_a_cap_or_a_whole_hash() -> None:
    shown = "".join(block.text for block in blocks(PAGE, "http"))
    assert "Bearer <cap>" in shown
    assert not re.findall(r"eyJ[\w-]{40,}|[0-9a-f]{64}", shown)
