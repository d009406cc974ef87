"""The error tree: one stable reason for each leaf, a family for each, and a page at its top that lists them all."""

from __future__ import annotations

import inspect
import re
from collections import Counter

import pytest

from strongroom import api, errors
from strongroom.errors import BY_REASON, StrongroomError

DESIGN = {
    400: ["invalid_request", "line_too_large", "too_many", "unknown_namespace", "format_too_old"],
    401: [
        "cap_missing",
        "cap_malformed",
        "cap_signature_invalid",
        "cap_holder_proof",
        "cap_audience",
        "cap_expired",
        "cap_not_yet_valid",
        "cap_revoked",
    ],
    403: [
        "cap_op_mismatch",
        "cap_data_class_mismatch",
        "cap_namespace_denied",
        "cap_limit_exceeded",
        "origin_refused",
    ],
    404: ["not_found", "unknown_route"],
    405: ["method_refused"],
    408: ["request_too_slow"],
    409: ["line_conflict", "line_replaced"],
    412: ["version_conflict"],
    413: ["body_too_large"],
    415: ["media_type_refused"],
    421: ["host_refused"],
    429: ["rate_limited"],
    431: ["headers_too_large"],
    500: ["tampered", "server_defect"],
    503: [
        "audit_unavailable",
        "store_unavailable",
        "key_unavailable",
        "format_too_new",
        "clock_behind",
        "server_unavailable",
    ],
}
FAMILIES = {
    "denied": {401, 403},
    "invalid": {400, 403, 404, 405, 408, 413, 415, 421, 431},
    "not_found": {404},
    "conflict": {409, 412},
    "tampered": {500},
    "unavailable": {429, 503},
    "defect": {500},
}
# Only met when a vault is made or opened, or by who hosts providers, so they never travel and have no status.
OF_VAULTS = {"vault_exists", "vault_format", "vault_missing"}
OF_HOSTS = {
    "provider_refused",
    "identity_incomplete",
    "provider_missing",
    "provider_unavailable",
    "journal_unavailable",
}


def _classes() -> list[type[StrongroomError]]:
    found = [thing for _, thing in inspect.getmembers(errors, inspect.isclass)]
    return [thing for thing in found if issubclass(thing, StrongroomError)]


def _leaves() -> list[type[StrongroomError]]:
    return [one for one in _classes() if not one.__subclasses__()]


@pytest.mark.requirement("error-tables")
def test_every_leaf_has_a_reason_of_its_own_and_nothing_above_it_has_one() -> None:
    reasons = Counter(leaf.reason for leaf in _leaves())
    assert [
        reason for reason, count in reasons.items() if count > 1 or not re.fullmatch("[a-z]+(_[a-z]+)*", reason)
    ] == []
    assert [one.__name__ for one in _classes() if one.__subclasses__() and one.reason] == []


@pytest.mark.requirement("error-tables")
def test_every_leaf_belongs_to_one_family() -> None:
    for leaf in _leaves():
        families = {one.family for one in leaf.__mro__ if issubclass(one, StrongroomError) and one.family}
        assert families == {leaf.family}
        assert leaf.family in FAMILIES


@pytest.mark.requirement("error-tables")
def test_table_by_reason_is_complete() -> None:
    assert {leaf.reason: leaf for leaf in _leaves()} == BY_REASON


@pytest.mark.requirement("error-tables")
def test_tree_at_the_top_of_the_module_lists_every_class_with_its_reason() -> None:
    page = inspect.getdoc(errors) or ""
    tree = page[page.index("StrongroomError\n") : page.index("A reason never changes")]
    shown = re.findall(r"[├└]── (\w+)\s+(?:[^\n]*?\s)?([a-z]+(?:_[a-z]+)*)\s*(?:\([^)\n]*\))?$", tree, re.MULTILINE)
    listed = {name: reason for name, reason in shown if name in {leaf.__name__ for leaf in _leaves()}}
    assert listed == {leaf.__name__: leaf.reason for leaf in _leaves()}
    assert set(re.findall(r"[├└]── (\w+)", tree)) == {one.__name__ for one in _classes()} - {"StrongroomError"}


@pytest.mark.requirement("error-tables")
def test_tree_shows_each_leaf_below_its_family() -> None:
    parent = ""
    for depth, name in re.findall(r"^(│   |    )?[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE):
        if not depth:
            parent = name
            assert getattr(errors, name).__bases__ == (StrongroomError,)
        else:
            assert getattr(errors, name).__bases__ == (getattr(errors, parent),)


@pytest.mark.requirement("error-tables")
def test_reasons_of_the_design_are_all_there_and_no_other() -> None:
    assert {reason for reasons in DESIGN.values() for reason in reasons} | OF_VAULTS | OF_HOSTS == set(BY_REASON)


@pytest.mark.requirement("error-tables", "wire-status")
def test_statuses_of_the_design_are_those_that_a_server_gives() -> None:
    assert {reason: status for status, reasons in DESIGN.items() for reason in reasons} == api.STATUS


@pytest.mark.requirement("error-tables")
def test_family_says_what_to_do_next_for_all_statuses_of_its_reasons() -> None:
    for status, reasons in DESIGN.items():
        for reason in reasons:
            assert status in FAMILIES[BY_REASON[reason].family], reason


@pytest.mark.parametrize("leaf", _leaves(), ids=lambda leaf: leaf.reason)
def test_error_starts_without_anybodys_name(leaf: type[StrongroomError]) -> None:
    error = leaf("what happened", hint="what to do")
    assert (str(error), error.message, error.hint) == ("what happened", "what happened", "what to do")
    assert (error.links, error.actor, error.holder) == ((), None, "")
