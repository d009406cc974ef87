"""The OpenAPI document, generated from the types that parse requests. Pure.

`docs/openapi.json` is a copy for readers; a test fails if the two differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec

from strongroom import api
from strongroom.model import DataClass, Profile
from strongroom.server.http.request_parser import ProfileText

_REF = "#/components/schemas/{name}"
_ALWAYS = (400, 401, 403, 405, 413, 415, 421, 429, 431, 500, 503)
"""HTTP statuses with which any call can end."""


@cache
def document() -> dict[str, Any]:
    """Build the whole OpenAPI document."""
    asked: list[type[msgspec.Struct]] = [kind for kind in api.CALLS if kind.method == "POST"]
    answers: list[type[msgspec.Struct]] = sorted({kind.answer for kind in api.CALLS}, key=str)
    every: list[type[msgspec.Struct]] = [*asked, *answers, ProfileText, api.Refusal]
    schemas, components = msgspec.json.schema_components(every, ref_template=_REF)
    for kind in _structs(msgspec.inspect.multi_type_info(every)):
        _say_what_may_be_left_out(kind, components[kind.__name__])
    named = {kind.__name__: schema for kind, schema in zip(every, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for kind in api.CALLS:
        paths.setdefault(kind.path, {})[kind.method.lower()] = _operation(kind, named)
    for path, summary in _OPEN.items():
        paths[path] = {"get": _open_operation(path, summary)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Strongroom",
            "version": version("strongroom"),
            "description": "Gated memory for AI agents. The cap says whose memory a call reaches, with which "
            "operations and in which namespaces; no field of a memory call names an actor.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"cap": {"type": "http", "scheme": "bearer", "description": "A cap, docs/spec/cap.md."}},
        },
    }


@cache
def encode_document() -> bytes:
    """The OpenAPI document as JSON, as the server sends it."""
    return msgspec.json.encode(document())


def _structs(types: Iterable[msgspec.inspect.Type]) -> set[type[msgspec.Struct]]:
    """All structs among the types and, recursively, in their fields."""
    found: set[type[msgspec.Struct]] = set()
    waiting = list(types)
    while waiting:
        one = waiting.pop()
        if isinstance(one, msgspec.inspect.StructType) and one.cls not in found:
            found.add(one.cls)
            waiting += [field.type for field in one.fields]
        elif isinstance(one, msgspec.inspect.UnionType):
            waiting += one.types
        elif isinstance(one, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
            waiting.append(one.item_type)
    return found


def _say_what_may_be_left_out(kind: type[msgspec.Struct], schema: dict[str, Any]) -> None:
    """Move defaults into descriptions, and mark the fields that every answer has as required.

    If a field has `default`, generators assume it is always there: openapi-typescript makes such a field of a request
    required.
    """
    if kind.__struct_config__.array_like:
        return
    for told in schema["properties"].values():
        for part in told.get("anyOf", ()):
            if part == {"type": "object"}:
                part["additionalProperties"] = True  # JSON of the caller's own
        default = told.pop("default", None)
        if kind.__struct_config__.omit_defaults and default is not None:
            told["description"] = f"If left out: `{msgspec.json.encode(default).decode()}`."
    if not kind.__struct_config__.omit_defaults:
        schema["required"] = list(kind.__struct_encode_fields__)


_OPEN = {
    "/healthz": "Whether the process answers.",
    "/readyz": "Whether store, keys and log are working.",
    "/metrics": "Metrics for Prometheus, only for callers on this machine.",
    "/openapi.json": "This document.",
}


def _operation(kind: type[api.Call[Any]], named: dict[str, Any]) -> dict[str, Any]:
    summary, _, rest = (kind.__doc__ or "").partition("\n\n")
    needs = f"Needs a cap for `{kind.data_class}` that allows `{kind.op}`."
    operation: dict[str, Any] = {
        "operationId": kind.__name__,
        "tags": ["memory" if kind.data_class is DataClass.MEMORY else "administration"],
        "summary": summary.strip(),
        "description": " ".join([*rest.split(), needs]),
        "security": [{"cap": []}],
        "responses": _responses(kind, named),
    }
    if kind in (api.ReadProfile, api.WriteProfile):
        operation["parameters"] = _profile_parameters(kind)
    if kind is api.WriteProfile:
        operation["requestBody"] = _body(named["ProfileText"], required=True)
    elif kind.method == "POST":
        operation["requestBody"] = _body(named[kind.__name__], required=_has_required(kind))
    return operation


def _has_required(kind: type[api.Call[Any]]) -> bool:
    return any(field.required for field in msgspec.structs.fields(kind))


def _body(schema: Any, *, required: bool) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def _responses(kind: type[api.Call[Any]], named: dict[str, Any]) -> dict[str, Any]:
    done: dict[str, Any] = {
        "description": "Done.",
        "content": {"application/json": {"schema": named[kind.answer.__name__]}},
    }
    if kind.answer is Profile:
        done["headers"] = {"ETag": {"description": "The profile's version.", "schema": {"type": "string"}}}
    extra = {
        api.Put: (408, 409),
        api.Deliver: (408, 409),
        api.Get: (404, 408),
        api.WriteProfile: (408, 412),
        api.Revoke: (404, 408),
        api.ReadDocument: (404, 408),
        api.ReadDocumentHistory: (404, 408),
        api.WriteDocument: (408, 412),
        api.DeleteDocument: (408, 412),
        api.RenameDocument: (404, 408, 412),
    }
    statuses = sorted({*_ALWAYS, *extra.get(kind, (408,))} - ({408, 413, 415} if kind.method == "GET" else set()))
    return {"200": done} | {str(status): _refused(status, named) for status in statuses}


def _refused(status: int, named: dict[str, Any]) -> dict[str, Any]:
    reasons = sorted(reason for reason, code in api.STATUS.items() if code == status)
    return {
        "description": ", ".join(f"`{reason}`" for reason in reasons),
        "content": {"application/json": {"schema": named["Refusal"]}},
    }


def _profile_parameters(kind: type[api.Call[Any]]) -> list[dict[str, Any]]:
    text = {"type": "string"}
    namespace = {
        "name": "namespace",
        "in": "query",
        "description": "The namespace; may be left out if the cap covers only one.",
        "schema": text,
    }
    if kind is api.ReadProfile:
        return [namespace]
    match = {
        "name": "If-Match",
        "in": "header",
        "description": "The ETag that the profile must still have; leave it out if there is no profile yet.",
        "schema": {"type": "string", "pattern": '^"[0-9a-f]{32}"$'},
    }
    return [namespace, match]


def _open_operation(path: str, summary: str) -> dict[str, Any]:
    kind = "text/plain" if path == "/metrics" else "application/json"
    return {
        "operationId": path.strip("/").partition(".")[0],
        "tags": ["service"],
        "summary": summary,
        "responses": {
            "200": {"description": "OK.", "content": {kind: {"schema": {}}}},
            "default": {
                "description": "Refused, or not ready.",
                "content": {"application/json": {"schema": {"$ref": _REF.format(name="Refusal")}}},
            },
        },
    }
