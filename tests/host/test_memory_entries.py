"""Entries of a memory file: what is refused, and that everything nobody named stays as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.errors import InvalidRequest
from strongroom.host.builtin.memory_entries import (
    DELIMITER,
    Action,
    Change,
    apply_changes,
    entries_of,
    prompt_text,
    size_of,
)

LIMIT = 200
MARK = "strongroom-recall"


def add(content: str) -> Change:
    return Change(Action.ADD, content)


def replace(old_text: str, content: str) -> Change:
    return Change(Action.REPLACE, content, old_text)


def remove(old_text: str) -> Change:
    return Change(Action.REMOVE, old_text=old_text)


def text_of(*entries: str) -> str:
    return DELIMITER.join(entries)


TEXT = text_of("likes tea", "likes tea with milk", "lives in Chengdu")

# Refused


@pytest.mark.parametrize(
    "change",
    [
        add(""),
        add(" \n\t "),
        add("§"),
        add("one\n§\ntwo"),
        add("one\n § \ntwo"),
        add("one\r§\rtwo"),
        add("one\r\n§"),
        add("\u2028§\u2028x"),
        add("half \ud83d pair"),
        add("x" * (LIMIT + 1)),
        Change(Action.ADD, "new", "likes"),
        replace("", "new"),
        replace("Chengdu", ""),
        replace("Chengdu", "one\n§\ntwo"),
        replace("Chengdu", "x" * (LIMIT + 1)),
        replace("likes", "new"),
        replace("coffee", "new"),
        remove(""),
        remove("likes"),
        remove("coffee"),
        Change(Action.REMOVE, "new", "Chengdu"),
    ],
)
def test_change_that_cannot_be_made_is_refused(change: Change) -> None:
    with pytest.raises(InvalidRequest) as caught:
        apply_changes(TEXT, [change], LIMIT)
    assert caught.value.reason == "invalid_request"


@pytest.mark.parametrize(("old_text", "count"), [("coffee", 0), ("likes", 2), ("e", 3)])
def test_refusal_says_how_many_entries_matched(old_text: str, count: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        apply_changes(TEXT, [remove(old_text)], LIMIT)
    assert f"in {count} entries" in caught.value.message


def test_refusal_repeats_no_text() -> None:
    for change in (remove("marked secret"), add("marked secret\n§"), replace("likes", "marked secret")):
        with pytest.raises(InvalidRequest) as caught:
            apply_changes(TEXT, [change], LIMIT)
        assert "marked" not in f"{caught.value.message} {caught.value.hint}"


def test_entry_that_does_not_fit_is_refused() -> None:
    room = LIMIT - size_of(entries_of(TEXT)) - len(DELIMITER)
    assert size_of(entries_of(apply_changes(TEXT, [add("x" * room)], LIMIT).text)) == LIMIT
    with pytest.raises(InvalidRequest):
        apply_changes(TEXT, [add("x" * (room + 1))], LIMIT)


def test_batch_with_one_bad_operation_makes_none_and_names_it() -> None:
    with pytest.raises(InvalidRequest) as caught:
        apply_changes(TEXT, [remove("Chengdu"), add("new"), remove("coffee")], LIMIT)
    assert caught.value.message.startswith("operation 3:")


def test_entry_larger_than_the_limit_is_not_dropped() -> None:
    page = "# by hand\n" + "word " * LIMIT
    text = text_of("likes tea", page)
    for change in (remove("by hand"), remove(page), replace("by hand", "short"), add("more")):
        with pytest.raises(InvalidRequest):
            apply_changes(text, [change], LIMIT)
    assert apply_changes(text, [remove("tea")], LIMIT).text == page


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_page_without_delimiters_is_not_dropped_for_a_part_of_it(end: str) -> None:
    page = end.join(("# About me", "- tea", "- Chengdu", ""))
    for change in (remove("tea"), replace("tea", "coffee"), remove(page[: len(page) // 2])):
        with pytest.raises(InvalidRequest):
            apply_changes(page, [change], LIMIT)
    with pytest.raises(InvalidRequest):
        apply_changes(page, [add("new"), remove("Chengdu")], LIMIT)
    assert apply_changes(page, [remove(page)], LIMIT).text == ""


@pytest.mark.parametrize("text", ["likes tea\n§", "likes tea\r\n§ ", "rows\n§\nlikes tea\n§\t"])
def test_dangling_delimiter_that_an_addition_would_join_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        apply_changes(text, [add("new")], LIMIT)


# Made


def test_entry_is_appended_and_reported() -> None:
    done = apply_changes(TEXT, [add("  rows \n")], LIMIT)
    assert done.text == TEXT + DELIMITER + "rows"
    assert done.made == (add("rows"),)


def test_equal_entry_is_not_added_again() -> None:
    for content in ("likes tea", " likes tea\n"):
        done = apply_changes(TEXT, [add(content)], LIMIT)
        assert (done.text, done.made) == (TEXT, ())


def test_equal_entry_is_no_error_in_a_file_over_the_limit() -> None:
    assert apply_changes(TEXT, [add("likes tea")], 10).made == ()


def test_entry_that_is_part_of_another_is_named_by_all_of_it() -> None:
    done = apply_changes(TEXT, [remove("likes tea")], LIMIT)
    assert entries_of(done.text) == ("likes tea with milk", "lives in Chengdu")
    assert done.made == (remove("likes tea"),)


def test_removed_entry_is_reported_whole() -> None:
    assert apply_changes(TEXT, [replace("Chengdu", "moved")], LIMIT).made == (replace("lives in Chengdu", "moved"),)
    assert apply_changes(TEXT, [remove("milk")], LIMIT).made == (remove("likes tea with milk"),)


def test_entry_is_replaced_in_its_place() -> None:
    done = apply_changes(TEXT, [replace("milk", "hates milk")], LIMIT)
    assert entries_of(done.text) == ("likes tea", "hates milk", "lives in Chengdu")


def test_replacing_by_an_entry_that_is_there_leaves_one_of_it() -> None:
    done = apply_changes(TEXT, [replace("milk", "likes tea")], LIMIT)
    assert entries_of(done.text) == ("likes tea", "lives in Chengdu")
    assert done.text == text_of("likes tea", "lives in Chengdu")


def test_replacing_an_entry_by_itself_changes_nothing() -> None:
    assert apply_changes(TEXT, [replace("Chengdu", "lives in Chengdu")], LIMIT).made == ()


def test_equal_entries_count_as_one_and_go_together() -> None:
    text = text_of("a", "b", "a")
    assert entries_of(text) == ("a", "b")
    assert apply_changes(text, [remove("a")], LIMIT).text == "b"
    assert apply_changes(text, [replace("a", "c")], LIMIT).text == text_of("c", "b")


def test_only_the_result_of_a_batch_must_fit() -> None:
    full = text_of("x" * 100, "y" * 90)
    done = apply_changes(full, [add("z" * 100), remove("y")], LIMIT + 10)
    assert entries_of(done.text) == ("x" * 100, "z" * 100)


def test_file_over_the_limit_can_be_made_smaller() -> None:
    text = text_of(*(f"{number} {'x' * 50}" for number in range(8)))
    smaller = apply_changes(text, [remove("7 x")], LIMIT).text
    assert len(entries_of(smaller)) == 7
    assert size_of(entries_of(smaller)) > LIMIT
    with pytest.raises(InvalidRequest):
        apply_changes(smaller, [remove("6 x"), add("x" * 52)], LIMIT)
    with pytest.raises(InvalidRequest):  # smaller again, but no entry of ours is larger than the limit
        apply_changes(text, [*(remove(f"{number} x") for number in range(6)), add("y" * (LIMIT + 1))], LIMIT)


def test_limit_counts_characters_not_bytes() -> None:
    assert apply_changes("", [add("茶" * LIMIT)], LIMIT).text == "茶" * LIMIT
    assert apply_changes("", [add("😀" * LIMIT)], LIMIT).text == "😀" * LIMIT
    with pytest.raises(InvalidRequest):
        apply_changes("", [add("茶" * (LIMIT + 1))], LIMIT)


def test_section_sign_inside_a_line_is_text() -> None:
    assert entries_of(apply_changes("", [add("see § 3\n§ 4")], LIMIT).text) == ("see § 3\n§ 4",)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_line_ends_part_entries_and_stay_as_they_are(end: str) -> None:
    text = end.join(("one", "§", "two", "", "§", "three", ""))
    assert entries_of(text) == ("one", "two", "three")
    assert apply_changes(text, [remove("two")], LIMIT).text == end.join(("one", "§", "three", ""))
    assert (
        apply_changes(text, [add("four")], LIMIT).text == end.join(("one", "§", "two", "", "§", "three")) + "\n§\nfour"
    )


def test_entry_is_named_by_what_a_model_is_shown_of_it() -> None:
    for entry in ("a\u202eb", f"pass {MARK} here", "two\r\nlines", "zero\u200bwidth"):
        assert prompt_text(entry) != entry
        assert apply_changes(text_of("x", entry), [remove(prompt_text(entry))], LIMIT).text == "x"


# Properties

anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
by_hand = st.lists(st.sampled_from(["§", "\n", "\r\n", "\r", " ", "a", "b", "\n§\n", "茶"]), max_size=14).map("".join)


def _storable(content: str) -> bool:
    return bool(content.strip()) and all(line.strip() != "§" for line in content.splitlines())


contents = anything.filter(_storable)


@given(st.lists(contents, max_size=6))
def test_entries_come_back_as_they_were_added(wanted: list[str]) -> None:
    text = apply_changes("", map(add, wanted), 10_000).text
    assert entries_of(text) == tuple(dict.fromkeys(one.strip() for one in wanted))
    assert text == text_of(*entries_of(text))


@given(by_hand, contents)
def test_addition_leaves_what_a_person_wrote(text: str, content: str) -> None:
    try:
        after = apply_changes(text, [add(content)], 10_000).text
    except InvalidRequest:
        return
    assert after.startswith(text.rstrip())
    assert entries_of(after) == tuple(dict.fromkeys((*entries_of(text), content.strip())))


@given(by_hand, st.data())
def test_removal_leaves_every_other_entry(text: str, data: st.DataObject) -> None:
    if not (entries := entries_of(text)):
        return
    gone = data.draw(st.sampled_from(entries))
    try:
        after = apply_changes(text, [remove(gone)], 10_000).text
    except InvalidRequest:
        return
    assert entries_of(after) == tuple(entry for entry in entries if entry != gone)


@given(by_hand)
def test_reading_agrees_with_text_mode_and_a_plain_split(text: str) -> None:
    def plain(text: str) -> str:
        return text.replace("\r\n", "\n").replace("\r", "\n")

    expected = dict.fromkeys(part.strip() for part in plain(text).split(DELIMITER) if part.strip())
    assert dict.fromkeys(map(plain, entries_of(text))) == expected
