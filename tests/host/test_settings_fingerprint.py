"""Fingerprints of settings: one for each meaning, none for what has no meaning in JSON, and nothing to read in them."""

from __future__ import annotations

import json
from collections import UserDict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.errors import InvalidRequest
from strongroom.host import User
from strongroom.host.cache.settings_fingerprint import DEEPEST, fingerprint, plain

KEY = bytes(32)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
SETTINGS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def _circle() -> object:
    inside: dict[str, object] = {}
    inside["again"] = inside
    return inside


@pytest.mark.parametrize(
    "settings",
    [
        {1: "a"},
        {None: "a"},
        {"model": {True: "a"}},
        {"tools": {"a", "b"}},
        {"home": Path("home")},
        {"key": b"bytes"},
        {"limit": float("nan")},
        {"limit": float("inf")},
        {"limit": [1, [float("-inf")]]},
        {"build": print},
        {"number": 10**5000},
        object(),
        _circle(),
        _nested(DEEPEST + 1),
    ],
)
def test_non_json_is_refused(settings: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        fingerprint(settings, KEY)
    assert caught.value.reason == "invalid_request"
    assert caught.value.hint


def test_refusal_says_where_it_is_and_never_what_else_stands_there() -> None:
    with pytest.raises(InvalidRequest) as caught:
        fingerprint({"model": {"api_key": "sk-marked", "stop": [1, {"sk-marked"}]}}, KEY)
    assert "settings.model.stop[1]" in str(caught.value)
    assert "sk-marked" not in "".join([repr(caught.value), str(caught.value), *caught.value.__notes__])


def test_deepest_settings_are_accepted() -> None:
    assert len(fingerprint(_nested(DEEPEST), KEY)) == 32


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {}),
        ({"a": None}, {"a": "null"}),
        ({"a": []}, {"a": {}}),
        ({"a": "", "b": "x"}, {"a": "x", "b": ""}),
        ({"a": ["x", "y"]}, {"a": ["y", "x"]}),
        ({"a": ["x,y"]}, {"a": ["x", "y"]}),
        ({"a": "é"}, {"a": "e\u0301"}),
    ],
)
def test_settings_that_differ_have_other_fingerprints(one: object, other: object) -> None:
    assert fingerprint(one, KEY) != fingerprint(other, KEY)


def test_order_of_keys_and_the_kind_of_mapping_or_list_do_not_matter() -> None:
    plain = fingerprint({"a": 1, "b": [1, 2]}, KEY)
    assert fingerprint({"b": (1, 2), "a": 1}, KEY) == plain
    assert fingerprint(MappingProxyType({"b": [1, 2], "a": 1}), KEY) == plain
    assert fingerprint(UserDict({"b": [1, 2], "a": 1}), KEY) == plain


@given(SETTINGS, SETTINGS)
def test_fingerprints_are_equal_exactly_where_the_json_is(one: object, other: object) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (fingerprint(one, KEY) == fingerprint(other, KEY)) == same


class _Armed(str):
    """A text that interrupts whoever looks at it."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __format__ = __hash__ = __eq__ = __len__ = __iter__ = __str__  # type: ignore[assignment]


class _Number(int):
    def __repr__(self) -> str:
        raise KeyboardInterrupt


def test_text_or_number_of_another_class_is_a_plain_one() -> None:
    class Settings(UserDict[str, object]):
        def items(self) -> Any:
            return [(_Armed("model"), [_Armed("large"), _Number(3)])]

    assert fingerprint(Settings(), KEY) == fingerprint({"model": ["large", 3]}, KEY)
    assert json.dumps(plain(Settings())) == '{"model": ["large", 3]}'


def test_another_key_gives_another_fingerprint() -> None:
    assert fingerprint({"api_key": "guess"}, KEY) != fingerprint({"api_key": "guess"}, bytes([1]) * 32)


@pytest.mark.requirement("cache-two-users")
def test_two_halves_of_a_pair_are_not_the_sign_they_would_make() -> None:
    whole, halves = User("\U0001f600"), User("\ud83d\ude00")
    assert fingerprint([whole.id], KEY) != fingerprint([halves.id], KEY)
