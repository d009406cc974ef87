"""What is read of a history: alike, however a runtime words it, and never more than roles and texts."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.hermes.provider.chat_history import SUMMARIES, History, Messages

ROLES = ("user", "assistant", "tool")
WORDS = ("hello", "the boat", "", f"{SUMMARIES[0]} of before", "a CONTEXT of its own", f"see {SUMMARIES[2]}] x")


def told(*pairs: tuple[str, str]) -> Messages:
    return Messages.of([{"role": role, "content": text} for role, text in pairs])


def said(*texts: str) -> Messages:
    return told(*(("user", text) for text in texts))


def one_by_one(messages: Sequence[Any]) -> list[tuple[str, str]]:
    """The same, as plainly as it can be written."""
    found = []
    for one in messages:
        if isinstance(one, Mapping) and isinstance(role := one.get("role"), str) and role in ROLES:
            text = one.get("content")
            found.append((role, text if isinstance(text, str) else ""))
    return found


class Odd(UserDict[str, Any]):
    """A message that is no dict."""


messages = st.lists(
    st.one_of(
        st.builds(
            lambda kind, role, content: kind({"role": role, "content": content, "api_content": "never"}),
            st.sampled_from([dict, dict, dict, Odd]),
            st.sampled_from([*ROLES, "system", None, 1, ("user",), ["user"], "User"]),
            st.sampled_from([*WORDS, None, 7, ["hello"], {"text": "hello"}]),
        ),
        st.sampled_from([None, "user", 3, {}, {"content": "no role"}, {"role": "user"}]),
    ),
    max_size=12,
)


@given(messages)
def test_roles_and_texts_of_any_history_are_read_alike(handed: list[Any]) -> None:
    found = Messages.of(handed)
    assert [*zip(found.roles, found.texts, strict=True)] == one_by_one(handed)


@given(st.lists(st.sampled_from(WORDS), max_size=8), st.sampled_from(WORDS), st.integers(0, 8))
def test_turn_begins_where_its_words_were_said_last_but_not_among_what_is_known(
    texts: list[str], wanted: str, known: int
) -> None:
    newest_first = [*range(len(texts))][::-1]
    reach = [place for place in newest_first if place > known]
    reach += [place for place in newest_first if place <= known][:1]  # the last that was known may be this turn's own
    expected = newest_first[0] if newest_first else 0
    for place in reach:
        if texts[place] == wanted:
            expected = place
            break
        if not texts[place]:
            break
    assert said(*texts).turn(wanted, known) == expected


def test_turn_that_stands_nowhere_begins_with_what_was_said_last() -> None:
    found = told(("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
    assert found.turn("x", 0) == 2
    assert told(("assistant", "b")).turn("x", 0) == 0
    assert told().turn("x", 0) == 0


def test_turn_is_not_looked_for_beyond_a_message_that_cannot_be_compared() -> None:
    assert said("a", "", "c").turn("a", 0) == 2
    assert said("a", "b", "c").turn("a", 0) == 0


class _Live(list[Any]):
    """A runtime's own list, which another thread changes whenever it was gone through."""

    def __init__(self, first: list[Any], then: list[Any]) -> None:
        super().__init__(first)
        self.then = then

    def __iter__(self) -> Iterator[Any]:
        before = [*super().__iter__()]
        self[:] = self.then
        return iter(before)


@pytest.mark.parametrize("then", [[], [{"role": "user", "content": "x"}] * 5, [None]])
def test_list_that_changes_meanwhile_is_read_as_it_was(then: list[Any]) -> None:
    first = [{"role": "user", "content": "a"}, {"role": "system", "content": "s"}, {"role": "user", "content": "c"}]
    found = Messages.of(_Live(first, then))
    assert (found.turn("c", 0), found.all_said()) == (1, ["a", "c"])


def test_last_user_text_is_what_the_person_said() -> None:
    found = told(("user", "a"), ("assistant", "b"), ("user", "c"))
    assert [found.last_said(before) for before in range(4)] == [None, "a", "a", "c"]
    assert found.all_said() == ["a", "c"]


@pytest.mark.parametrize("mark", SUMMARIES)
@pytest.mark.parametrize("role", ROLES)
def test_summary_is_seen_wherever_it_stands(mark: str, role: str) -> None:
    plain = told(("user", "a"), (role, "b"))
    summed = told(("user", "a"), (role, f"b {mark} and more"))
    other = told(("user", "a"), (role, f"b {mark} and other"))
    assert not plain.summary()
    assert len({plain.summary(), summed.summary(), other.summary()}) == 3


def test_text_that_only_speaks_of_context_is_no_summary() -> None:
    assert not said("the CONTEXT of this", "[CONTEXTS]").summary()


def test_history_knows_what_was_said_before_its_turn() -> None:
    handed = [{"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "b"), ("user", "c"))]
    history = History.of(handed, "c", 0)
    assert (history.length, history.last_said(), history.summary) == (2, "a", "")
    assert History.of(handed[:1], "a", 0).last_said() is None
