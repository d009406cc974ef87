"""Write docs/http.md from the calls, the routes and the limits themselves, with examples that are really made.

With `--check`, say whether the page is what it would write. A route, a field or a reason that the tables here do not
know stops the script.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from strongroom import api
from strongroom.model import DataClass, NewLine
from strongroom.server.http import openapi

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the scripts are no installed package

from scripts.http_examples import Example, examples, shown  # noqa: E402
from scripts.http_words import FIELDS, HEADERS, INTRODUCTION, NOTES, OPEN, STATUSES, TRYING  # noqa: E402
from scripts.kept_page import kept  # noqa: E402

PAGE = ROOT / "docs" / "http.md"


def page() -> str:
    """The page as it should be."""
    made = examples()
    parts = [INTRODUCTION, TRYING, "\n".join(headers()), "\n".join(statuses(made))]
    for data_class, heading in ((DataClass.MEMORY, "Memory"), (DataClass.ADMIN, "Administration")):
        parts.append(f"## {heading}\n\n{NOTES[heading]}")
        parts += ["\n".join(route(kind, made)) for kind in api.CALLS if kind.data_class is data_class]
    parts.append("\n".join(without_cap()))
    return "\n".join(part.rstrip() + "\n" for part in parts)


def headers() -> Iterator[str]:
    yield "## Headers\n"
    yield "| header | in | means |"
    yield "|---|---|---|"
    yield from (f"| `{name}` | {where} | {meaning} |" for name, where, meaning in HEADERS)


def statuses(made: dict[str, Example]) -> Iterator[str]:
    """Every status with its reasons, and an error as it comes."""
    by_status: dict[int, list[str]] = {}
    for reason, status in api.STATUS.items():
        by_status.setdefault(status, []).append(reason)
    yield "## Errors\n"
    yield "| status | reasons | then |"
    yield "|---|---|---|"
    for status, reasons in sorted(by_status.items()):
        yield f"| {status} | {', '.join(f'`{one}`' for one in reasons)} | {STATUSES[status]} |"
    yield f"\n{NOTES['Errors']}\n"
    yield from ("```http", shown(made["denied"]), "```")


def route(kind: type[api.Call[Any]], made: dict[str, Example]) -> Iterator[str]:
    """One route: what it does, what cap it needs, what it takes and gives, and an example."""
    name = kind.__name__
    yield f"### {kind.method} {kind.path}\n"
    yield f"{' '.join((kind.__doc__ or '').split())} Needs a cap of the class `{kind.data_class}` for `{kind.op}`."
    if name in NOTES:
        yield NOTES[name]
    yield ""
    rows = list(fields(kind))
    if rows:
        yield f"| {where(kind)} | type | default | meaning |"
        yield "|---|---|---|---|"
        yield from rows
        yield ""
    answer = ", ".join(f"`{one}`" for one in kind.answer.__struct_fields__) or "no field"
    yield f"It answers with {answer}: {' '.join((kind.answer.__doc__ or '').split())}\n"
    yield from ("```http", shown(made[name]), "```")
    if name == "WriteProfile":
        yield from ("", NOTES["conflict"], "", "```http", shown(made["conflict"]), "```")


def where(kind: type[api.Call[Any]]) -> str:
    return "field" if kind.method == "POST" else "part of the request"


def fields(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """A row for each field; those of a line stand below the lines."""
    hints = get_type_hints(kind)
    for one in msgspec.structs.fields(kind):
        default = "required" if one.required else f"`{msgspec.json.encode(one.default).decode()}`"
        shown_as, meaning = FIELDS[kind.__name__][one.name]
        yield f"| {shown_as or f'`{prefix}{one.name}`'} | {type_of(hints[one.name])} | {default} | {meaning} |"
        if hints[one.name] == tuple[NewLine, ...]:
            yield from fields(NewLine, "lines[].")


def type_of(hint: Any) -> str:
    """A type in words, without the null that only stands for being left out."""
    text = re.sub(r"\b(typing\.|datetime\.|strongroom\.values\.|strongroom\.model\.)", "", str(hint)).replace(
        " | None", ""
    )
    return TYPES[text if text in TYPES else re.sub(r"<class '(.*)'>", r"\1", text)]


TYPES = {
    "str": "text",
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
    "datetime": "time, ISO 8601 with its zone",
    "bytes": "bytes, in base64",
    "tuple[str, ...]": "list of texts",
    "tuple[NewLine, ...]": "list of lines",
}


def without_cap() -> Iterator[str]:
    """The routes that need no cap."""
    served = {path for path in openapi.document()["paths"] if not path.startswith("/v1/")}
    assert served | {"/mcp"} == set(OPEN), "a route without a cap is not described, or is gone"
    yield f"## Without a cap, and MCP\n\n{NOTES['open']}\n"
    yield "| route | answers |"
    yield "|---|---|"
    yield from (f"| `{path}` | {meaning} |" for path, meaning in OPEN.items())


def main() -> int:
    written = page()
    return kept(PAGE, written, "make_http_reference.py")


if __name__ == "__main__":
    sys.exit(main())
