"""The OpenAPI document put to the proof: requests made from it, and every answer held against it.

Whatever comes, good or bad, with a valid cap or an invalid one, nothing is a server error, every status and every body
is one that the document has, and what the document does not allow is not accepted. It is not asked that all that it
allows be accepted: that a name is a namespace's is said in words only.
"""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import CHECKS, CheckFunction

from strongroom import Token, Vault
from strongroom.model import Op
from strongroom.server.http import openapi
from tests.conftest import NAMESPACES
from tests.server.running import Running


def document(*, security: bool) -> dict[str, Any]:
    """The served document. Without its security the tool leaves the cap to the test; with it, it tries its own."""
    found: dict[str, Any] = json.loads(openapi.encode_document())
    for operation in (one for methods in found["paths"].values() for one in methods.values() if not security):
        operation.pop("security", None)
    return found


OPEN = schemathesis.openapi.from_dict(document(security=True)).include(tag="service")
CALLS = schemathesis.openapi.from_dict(document(security=True)).exclude(tag="service")
CALLS_WITH_CAP = schemathesis.openapi.from_dict(document(security=False)).exclude(tag="service")
SMALL = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None)
LARGE = settings(SMALL, max_examples=200)
NAMES = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
CHOSEN = cast(list[CheckFunction], CHECKS.get_by_names(list(NAMES)))


def url(served: Running) -> str:
    return f"http://127.0.0.1:{served.address[1]}"


def fresh_cap(vault: Vault, case: Case[Any]) -> Token:
    """A cap that allows the operation: an erasure voids those that were there before."""
    admin = "administration" in (case.operation.tags or ())
    given: dict[str, Any] = {"actor_scope": "local/", "data_class": "admin"} if admin else {"actor": "local/alice"}
    return vault.mint(ops=list(Op), namespaces=NAMESPACES, ttl=3600, **given)


def check_valid(case: Case[Any], served: Running) -> None:
    """Ask with a cap that allows it."""
    headers = {"Authorization": f"Bearer {fresh_cap(served.vault, case)}"}
    answer = case.call_and_validate(base_url=url(served), headers=headers, checks=CHOSEN)
    assert answer.status_code != 401
    assert answer.status_code != 403 or answer.json()["reason"] in ("cap_namespace_denied", "cap_limit_exceeded")


def check_invalid(case: Case[Any], served: Running, shown: str | None) -> None:
    """Ask with a cap that is none: whatever is asked, it is refused."""
    headers = {} if shown is None else {"Authorization": shown}
    answer = case.call_and_validate(base_url=url(served), headers=headers, checks=CHOSEN)
    assert 400 <= answer.status_code < 500


INVALID = pytest.mark.parametrize("shown", [None, "Bearer garbage"])
ALL_INVALID = pytest.mark.parametrize("shown", [None, "Bearer garbage", "Bearer a.b.c~d", "Basic YTpi"])


@pytest.mark.requirement("server-openapi")
@CALLS_WITH_CAP.parametrize()
@SMALL
def test_every_answer_to_a_valid_cap_is_as_documented(case: Case[Any], served: Running) -> None:
    check_valid(case, served)


@pytest.mark.requirement("server-openapi")
@INVALID
@CALLS.parametrize()
@SMALL
def test_every_answer_to_an_invalid_cap_is_a_documented_refusal(
    case: Case[Any], served: Running, shown: str | None
) -> None:
    check_invalid(case, served, shown)


@pytest.mark.requirement("server-openapi")
@OPEN.parametrize()
@SMALL
def test_route_without_a_cap_answers_as_documented(case: Case[Any], served: Running) -> None:
    case.call_and_validate(base_url=url(served), checks=CHOSEN)


@pytest.mark.long
@pytest.mark.requirement("server-openapi")
@CALLS_WITH_CAP.parametrize()
@LARGE
def test_many_times_with_a_valid_cap_every_answer_is_as_documented(case: Case[Any], served: Running) -> None:
    check_valid(case, served)


@pytest.mark.long
@pytest.mark.requirement("server-openapi")
@ALL_INVALID
@CALLS.parametrize()
@LARGE
def test_many_times_with_an_invalid_cap_every_answer_is_a_refusal(
    case: Case[Any], served: Running, shown: str | None
) -> None:
    check_invalid(case, served, shown)
