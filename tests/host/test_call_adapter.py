"""Calling providers of any age: nothing they would choke on, nothing they did not ask for."""

from __future__ import annotations

import functools
import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.host.call_adapter import fit_arguments


class Ages:
    """One method of each shape that providers were written in."""

    def bare(self, user: str, assistant: str) -> None: ...

    def keyword(self, user: str, assistant: str, *, session_id: str = "") -> None: ...

    def whole(self, user: str, assistant: str, *, session_id: str = "", messages: Any = None) -> None: ...

    def anything(self, user: str, assistant: str, **kwargs: Any) -> None: ...

    def places(self, *args: str) -> None: ...

    def renamed(self, action: str, target: str, content: str, details: Any) -> None: ...

    def only_places(self, action: str, target: str, content: str, details: Any, /) -> None: ...

    def own_option(self, query: str, limit: int = 5) -> int:
        return limit

    @staticmethod
    def still(user: str, assistant: str) -> None: ...

    @classmethod
    def of_class(cls, user: str, assistant: str, *, session_id: str = "") -> None: ...


KEYWORDS = {"session_id": "s1", "messages": ["m"]}


@pytest.mark.requirement("host-old-signatures")
@pytest.mark.parametrize(
    ("shape", "given_keywords"),
    [
        ("bare", set()),
        ("keyword", {"session_id"}),
        ("whole", {"session_id", "messages"}),
        ("anything", {"session_id", "messages"}),
        ("places", set()),
        ("still", set()),
        ("of_class", {"session_id"}),
    ],
)
def test_method_gets_the_keywords_it_knows_and_no_other(shape: str, given_keywords: set[str]) -> None:
    args, keywords = fit_arguments(getattr(Ages(), shape), ("u", "a"), dict(KEYWORDS))
    assert (args, set(keywords)) == (("u", "a"), given_keywords)
    getattr(Ages(), shape)(*args, **keywords)


@pytest.mark.requirement("host-old-signatures")
@pytest.mark.parametrize("shape", ["renamed", "only_places"])
def test_metadata_goes_to_the_fourth_place_whatever_its_name(shape: str) -> None:
    args, keywords = fit_arguments(getattr(Ages(), shape), ("add", "user", "x"), {"metadata": {"k": 1}})
    assert (args, keywords) == (("add", "user", "x", {"k": 1}), {})


@pytest.mark.requirement("host-old-signatures")
def test_providers_own_optional_parameter_is_left_alone() -> None:
    method = Ages().own_option
    args, keywords = fit_arguments(method, ("question",), {"session_id": "s1"})
    assert method(*args, **keywords) == 5


def test_wrapped_method_is_judged_by_what_it_wraps() -> None:
    class Wrapped:
        @functools.wraps(Ages.bare)
        def bare(self, *args: Any, **kwargs: Any) -> None:
            Ages.bare(self, *args, **kwargs)  # type: ignore[arg-type]

    assert fit_arguments(Wrapped().bare, ("u", "a"), dict(KEYWORDS)) == (("u", "a"), {})


def test_attribute_that_is_a_plain_function_gets_no_surplus_places() -> None:
    def bare(user: str, assistant: str, spare: str = "mine") -> str:
        return spare

    provider = SimpleNamespace(sync_turn=bare)
    args, keywords = fit_arguments(provider.sync_turn, ("u", "a"), dict(KEYWORDS))
    assert bare(*args, **keywords) == "mine"


def test_hook_that_cannot_be_inspected_gets_what_the_interface_says() -> None:
    assert fit_arguments(dict.update, ("u",), {"messages": 1}) == (("u",), {"messages": 1})


def test_callable_that_has_no_hash_is_called_all_the_same() -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, user: str) -> None: ...

    assert fit_arguments(Odd(), ("u",), {"session_id": "s"}) == (("u",), {})


_KIND = st.sampled_from([inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY])
_NAMES = ("session_id", "messages", "metadata", "limit", "other")


@given(
    parameters=st.lists(st.tuples(st.sampled_from(_NAMES), _KIND), unique_by=lambda one: one[0], max_size=4),
    keywords=st.dictionaries(st.sampled_from(_NAMES[:3]), st.integers(), max_size=3),
)
@pytest.mark.requirement("host-old-signatures")
def test_no_signature_is_ever_given_a_keyword_it_does_not_know(
    parameters: list[tuple[str, Any]], keywords: dict[str, int]
) -> None:
    placed = [name for name, kind in parameters if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    named = [name for name, kind in parameters if kind is inspect.Parameter.KEYWORD_ONLY]
    source = ", ".join(["self", "user", *(f"{n}=None" for n in placed), *(["*"] if named else [])])
    source += "".join(f", {n}=None" for n in named)
    space: dict[str, Any] = {}
    exec(f"class Made:\n    def hook({source}): return locals()", space)
    made = space["Made"]()
    args, passed = fit_arguments(made.hook, ("u",), dict(keywords))
    assert set(passed) <= {*placed, *named} & set(keywords)
    got = made.hook(*args, **passed)
    known = {name: value for name, value in keywords.items() if name in got}
    assert {name: got[name] for name in known} == known
