"""The built-in memory: what it refuses, whom it tells and when, and what a model sees of it."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.errors import InvalidRequest, StoreUnavailable, StrongroomError
from strongroom.host.builtin.builtin_memory import MEMORY_LIMIT, SHOWN_LIMITS, USER_LIMIT, BuiltinMemory, Write
from strongroom.host.builtin.memory_entries import DELIMITER, Action, Change
from strongroom.host.builtin.memory_tool import MOST_OPERATIONS
from strongroom.host.builtin.text_file import MOST_BYTES
from tests.store.children import Process

MARK = "strongroom-recall"


class Heard:
    """Who was told what, in order."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.notices: list[str] = []

    def memory(self, directory: Path, **named: Any) -> BuiltinMemory:
        return BuiltinMemory(directory, status=self.notices.append, on_write=self.writes.append, **named)

    @property
    def nothing(self) -> bool:
        return not self.writes and not self.notices


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "memories"


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def memory(place: Path, heard: Heard) -> BuiltinMemory:
    return heard.memory(place)


def call(memory: BuiltinMemory, **args: object) -> dict[str, Any]:
    answer = json.loads(memory.handle_tool_call("memory", args))
    assert isinstance(answer, dict)
    return answer


def prompt(memory: BuiltinMemory) -> str:
    memory.initialize("s1", hermes_home="/nowhere", platform="cli")
    return memory.system_prompt_block()


def by_hand(place: Path, text: str, name: str = "MEMORY.md") -> Path:
    place.mkdir(mode=0o700, exist_ok=True)
    (place / name).write_bytes(text.encode())
    return place / name


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        yield


# Refused


@pytest.mark.parametrize(
    ("action", "args"),
    [
        ("add", ("memory", "")),
        ("add", ("memory", "one\n§\ntwo")),
        ("add", ("memory", "x" * (MEMORY_LIMIT + 1))),
        ("add", ("user", "x" * (USER_LIMIT + 1))),
        ("add", ("soul", "likes tea")),
        ("replace", ("memory", "coffee", "new")),
        ("replace", ("memory", "likes", "new")),
        ("replace", ("memory", "tea", "")),
        ("remove", ("memory", "likes")),
        ("remove", ("memory", "")),
        ("remove", ("user", "tea")),
    ],
)
@pytest.mark.requirement("builtin-notifies-after-commit")
def test_refused_change_changes_nothing_and_tells_nobody(place: Path, action: str, args: tuple[str, ...]) -> None:
    heard, path = Heard(), by_hand(place, "likes tea\n§\nlikes rowing\n")
    memory = heard.memory(place)
    with pytest.raises(InvalidRequest) as caught:
        getattr(memory, action)(*args)
    assert caught.value.reason == "invalid_request"
    assert path.read_text() == "likes tea\n§\nlikes rowing\n"
    assert not (place / "USER.md").exists()
    assert heard.nothing


@pytest.mark.requirement("builtin-notifies-after-commit")
def test_change_that_cannot_be_written_tells_nobody(
    memory: BuiltinMemory, heard: Heard, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand(place, "likes tea")
    with full_disk(monkeypatch), pytest.raises(StoreUnavailable):
        memory.add("memory", "likes rowing")
    with full_disk(monkeypatch):
        answer = call(memory, target="memory", action="remove", old_text="tea")
    assert (answer["success"], answer["reason"], answer["entries"]) == (False, "store_unavailable", ["likes tea"])
    assert (place / "MEMORY.md").read_text() == "likes tea"
    assert heard.nothing


def test_memory_for_reading_refuses_changes_and_offers_no_tool(place: Path) -> None:
    heard, path = Heard(), by_hand(place, "likes tea")
    memory = heard.memory(place, writable=False)
    for change in (Change(Action.ADD, "new"), Change(Action.REPLACE, "new", "tea"), Change(Action.REMOVE, "", "tea")):
        with pytest.raises(InvalidRequest):
            memory.change("memory", [change])
    assert memory.get_tool_schemas() == []
    assert call(memory, target="memory", action="add", content="new")["success"] is False
    assert path.read_text() == "likes tea"
    assert heard.nothing
    assert "likes tea" in prompt(memory)


def test_limit_below_one_is_refused(place: Path) -> None:
    with pytest.raises(InvalidRequest):
        BuiltinMemory(place, memory_limit=0)
    with pytest.raises(InvalidRequest):
        BuiltinMemory(place, user_limit=-1)


BAD_CALLS: list[object] = [
    None,
    [],
    "add",
    7,
    {},
    {"target": "memory"},
    {"target": "memory", "action": ""},
    {"target": "memory", "action": "forget", "content": "x"},
    {"target": "memory", "action": "ADD", "content": "x"},
    {"target": "memory", "action": ["add"], "content": "x"},
    {"target": "soul", "action": "add", "content": "x"},
    {"target": 1, "action": "add", "content": "x"},
    {"target": ["memory"], "action": "add", "content": "x"},
    {"target": "memory", "action": "add"},
    {"target": "memory", "action": "add", "content": None},
    {"target": "memory", "action": "add", "content": 5},
    {"target": "memory", "action": "add", "content": {"text": "x"}},
    {"target": "memory", "action": "add", "content": b"x"},
    {"target": "memory", "action": "add", "content": "\ud800"},
    {"target": "memory", "action": "add", "content": "x" * 5_000_000},
    {"target": "memory", "action": "add", "content": "x", "old_text": "tea"},
    {"target": "memory", "action": "replace", "content": "x"},
    {"target": "memory", "action": "replace", "old_text": "tea"},
    {"target": "memory", "action": "replace", "old_text": "y" * 5_000_000, "content": "x"},
    {"target": "memory", "action": "remove"},
    {"target": "memory", "action": "remove", "content": "tea"},
    {"target": "memory", "action": "remove", "old_text": True},
    {"target": "memory", "operations": "add"},
    {"target": "memory", "operations": []},
    {"target": "memory", "operations": [None]},
    {"target": "memory", "operations": ["add"]},
    {"target": "memory", "operations": [{}]},
    {"target": "memory", "operations": [{"action": "add", "content": "x"}, {"action": "add"}]},
    {"target": "memory", "operations": [{"action": "add", "content": "x"}], "action": "add", "content": "y"},
    {"target": "memory", "operations": [{"action": "add", "content": "x"}] * (MOST_OPERATIONS + 1)},
    {1: "memory", "action": "add"},
]


@pytest.mark.parametrize("args", BAD_CALLS, ids=range(len(BAD_CALLS)))
def test_bad_arguments_get_json_and_change_nothing(args: Any, place: Path) -> None:
    heard, path = Heard(), by_hand(place, "likes tea")
    answer = heard.memory(place).handle_tool_call("memory", args)
    assert len(answer) < 1000
    told = json.loads(answer)
    assert (told["success"], told["reason"]) == (False, "invalid_request")
    assert told["error"]
    answer.encode()
    assert path.read_text() == "likes tea"
    assert heard.nothing


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["target", "content", "old_text", "operations", "action"]) | st.text(max_size=3),
                inner | st.sampled_from(["memory", "user", "replace", "remove"]),
            )
        ),
        max_leaves=12,
    )
)
def test_no_argument_makes_the_tool_raise(tmp_path_factory: pytest.TempPathFactory, args: Any) -> None:
    memory = BuiltinMemory(tmp_path_factory.getbasetemp() / "any")
    assert isinstance(json.loads(memory.handle_tool_call("memory", args))["success"], bool)


def test_another_tool_is_refused(memory: BuiltinMemory, place: Path) -> None:
    answer = json.loads(memory.handle_tool_call("recall", {"target": "memory", "action": "add", "content": "x"}))
    assert answer["success"] is False
    assert not place.exists()


def test_refusal_shows_what_is_there(memory: BuiltinMemory, place: Path) -> None:
    by_hand(place, "likes tea\n§\nlikes rowing")
    answer = call(memory, target="memory", action="remove", old_text="likes")
    assert "in 2 entries" in answer["error"]
    assert answer["hint"]
    assert answer["entries"] == ["likes tea", "likes rowing"]
    assert answer["usage"].startswith("1%")


# Files that a person or a fault left in another state


def _directory(path: Path) -> None:
    path.mkdir()


def _latin(path: Path) -> None:
    path.write_bytes("Grüße".encode("latin-1"))


def _huge(path: Path) -> None:
    path.write_bytes(b"x" * (MOST_BYTES + 1))


@pytest.mark.parametrize("make", [_directory, _latin, _huge])
def test_file_that_cannot_be_read_is_named_and_the_other_one_still_serves(
    place: Path, heard: Heard, caplog: pytest.LogCaptureFixture, make: Callable[[Path], None]
) -> None:
    by_hand(place, "likes tea", "USER.md")
    make(place / "MEMORY.md")
    memory = heard.memory(place)
    with caplog.at_level(logging.WARNING, "strongroom.host"):
        block = prompt(memory)
    assert "likes tea" in block
    assert "MEMORY.md" not in block
    assert "builtin" in caplog.text
    assert "MEMORY.md" in caplog.text
    assert len(heard.notices) == 1
    with pytest.raises(StrongroomError) as caught:
        memory.add("memory", "new")
    assert "MEMORY.md" in caught.value.message
    assert caught.value.hint
    answer = call(memory, target="memory", action="add", content="new")
    assert answer["success"] is False
    assert "entries" not in answer
    assert memory.add("user", "likes rowing").entries == ("likes tea", "likes rowing")


def test_place_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "memories").write_text("something else")
    memory = BuiltinMemory(tmp_path / "memories")
    with pytest.raises(StoreUnavailable):
        memory.add("memory", "new")
    assert prompt(memory) == ""
    assert (tmp_path / "memories").read_text() == "something else"


def test_page_beyond_the_limit_is_never_cut_or_rewritten(memory: BuiltinMemory, heard: Heard, place: Path) -> None:
    page = "# My notes\r\n\r\n" + "- a thing that I noted myself\r\n" * 200
    path = by_hand(place, page)
    for args in (
        {"action": "add", "content": "new"},
        {"action": "remove", "old_text": "My notes"},
        {"action": "replace", "old_text": "My notes", "content": "gone"},
        {"action": "replace", "old_text": page, "content": "gone"},
    ):
        assert call(memory, target="memory", **args)["success"] is False
    prompt(memory)
    assert path.read_bytes() == page.encode()
    assert heard.nothing


def test_page_within_the_limit_is_kept_when_an_entry_is_added(memory: BuiltinMemory, place: Path) -> None:
    page = "# My notes\n\n- tea\n- rowing\n"
    path = by_hand(place, page)
    assert call(memory, target="memory", action="replace", old_text="tea", content="gone")["success"] is False
    assert path.read_text() == page
    memory.add("memory", "new")
    assert path.read_text() == page.rstrip() + DELIMITER + "new"


def test_file_filled_by_hand_is_shown_within_bounds(place: Path) -> None:
    entries = [f"{number}:" + "x" * 50 for number in range(10)]
    by_hand(place, DELIMITER.join(entries))
    memory = BuiltinMemory(place, memory_limit=60)
    block = prompt(memory)
    assert [entry for entry in entries if entry in block] == entries[:SHOWN_LIMITS]
    assert "6 more in the file" in block
    assert "[911% of the limit of 60 characters]" in block
    answer = call(memory, target="memory", action="add", content="new")
    assert (answer["entries"], answer["left_out"]) == (entries[:SHOWN_LIMITS], 6)


# Told


@pytest.mark.requirement("builtin-notifies-after-commit")
def test_listener_to_a_change_finds_it_in_the_file(place: Path) -> None:
    seen: list[tuple[Write, str]] = []
    path = place / "USER.md"
    memory = BuiltinMemory(place, on_write=lambda write: seen.append((write, path.read_text())))
    memory.add("user", "likes tea")
    memory.replace("user", "tea", "likes maté")
    memory.remove("user", "mat")
    assert seen == [
        (Write("add", "user", "likes tea", ""), "likes tea"),
        (Write("replace", "user", "likes maté", "likes tea"), "likes maté"),
        (Write("remove", "user", "", "likes maté"), ""),
    ]


@pytest.mark.requirement("builtin-memory-updated-notice", "builtin-flush-without-provider")
def test_user_is_told_without_any_external_provider(place: Path) -> None:
    notices: list[str] = []
    memory = BuiltinMemory(place, status=notices.append)
    memory.initialize("flush-1", hermes_home="/nowhere", platform="cli", agent_context="flush")
    assert call(memory, target="user", action="add", content="likes tea")["success"] is True
    memory.add("memory", "uses make")
    assert notices == ["memory updated: USER.md", "memory updated: MEMORY.md"]
    assert (place / "USER.md").read_text() == "likes tea"


@pytest.mark.requirement("builtin-memory-updated-notice")
def test_sessions_callback_gets_the_notices_unless_another_was_given(place: Path, heard: Heard) -> None:
    session: list[str] = []
    memory = BuiltinMemory(place)
    memory.initialize("s1", status_callback=session.append)
    memory.add("memory", "one")
    assert session == ["memory updated: MEMORY.md"]
    other = heard.memory(place)
    other.initialize("s2", status_callback=session.append)
    other.add("memory", "two")
    assert (len(session), len(heard.notices)) == (1, 1)


def test_change_that_changes_nothing_tells_nobody(memory: BuiltinMemory, heard: Heard, place: Path) -> None:
    path = by_hand(place, "likes tea")
    before = path.stat().st_ino
    assert memory.add("memory", "likes tea").writes == ()
    assert call(memory, target="memory", action="replace", old_text="tea", content="likes tea")["success"] is True
    assert path.stat().st_ino == before
    assert heard.nothing


@pytest.mark.requirement("builtin-notifies-after-commit")
def test_listener_that_fails_undoes_nothing_and_stops_nobody_else(
    place: Path, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(word: object) -> None:
        heard.notices.append("asked")
        raise RuntimeError("marked secret")

    memory = BuiltinMemory(place, status=fail, on_write=fail)
    assert memory.add("memory", "likes tea").entries == ("likes tea",)
    assert (place / "MEMORY.md").read_text() == "likes tea"
    assert heard.notices == ["asked", "asked"]
    assert "RuntimeError" in caplog.text
    assert "marked" not in caplog.text


def test_listener_may_change_memory_itself(place: Path) -> None:
    def mirror(write: Write) -> None:
        if write.target == "memory":
            mirrored.add("memory", "noted")
            mirrored.add("user", write.content)

    mirrored = BuiltinMemory(place, on_write=mirror, patience=0)
    mirrored.add("memory", "likes tea")
    assert mirrored.read("user").entries == ("noted", "likes tea")
    assert mirrored.read("memory").entries == ("likes tea", "noted")


# Made


def test_batch_is_one_write_and_tells_each_change(memory: BuiltinMemory, heard: Heard, place: Path) -> None:
    by_hand(place, "likes tea\n§\nlikes rowing")
    operations = [
        {"action": "remove", "old_text": "tea", "content": ""},
        {"action": "replace", "old_text": "rowing", "content": "hates rowing"},
        {"action": "add", "content": "hates rowing", "old_text": None},
        {"action": "add", "content": "lives in Chengdu"},
    ]
    answer = call(memory, target="memory", operations=operations, action=None, content="", old_text="")
    assert answer["success"] is True
    assert answer["entries"] == 2
    assert answer["gone"] == ["likes tea", "likes rowing"]
    assert [write.action for write in heard.writes] == ["remove", "replace", "add"]
    assert heard.notices == ["memory updated: MEMORY.md"]
    assert (place / "MEMORY.md").read_text() == "hates rowing\n§\nlives in Chengdu"


def test_batch_with_a_bad_operation_makes_none(memory: BuiltinMemory, heard: Heard, place: Path) -> None:
    path = by_hand(place, "likes tea")
    with pytest.raises(InvalidRequest):
        memory.change("memory", [Change(Action.ADD, "new"), Change(Action.REMOVE, old_text="coffee")])
    assert path.read_text() == "likes tea"
    assert heard.nothing


def test_limits_count_characters(place: Path) -> None:
    memory = BuiltinMemory(place)
    assert memory.add("user", "茶" * USER_LIMIT).used == USER_LIMIT
    assert memory.add("memory", "茶" * MEMORY_LIMIT).usage.startswith("100%")
    with pytest.raises(InvalidRequest):
        memory.add("user", "水")


def test_target_is_memory_by_default(memory: BuiltinMemory) -> None:
    assert call(memory, action="add", content="one", target=None)["target"] == "memory"
    assert call(memory, action="add", content="two")["entries"] == 2


def test_tool_is_described_as_model_apis_take_it(memory: BuiltinMemory) -> None:
    (schema,) = memory.get_tool_schemas()
    assert set(schema) == {"name", "description", "parameters"}
    assert schema["name"] == "memory"
    jsonschema.Draft202012Validator.check_schema(schema["parameters"])
    good = {"target": "user", "operations": [{"action": "add", "content": "x"}]}
    jsonschema.validate(good, schema["parameters"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"target": "soul"}, schema["parameters"])
    assert json.loads(json.dumps(schema)) == schema


def test_nothing_is_touched_before_the_first_change(memory: BuiltinMemory, place: Path) -> None:
    assert memory.name == "builtin"
    assert memory.is_available()
    assert memory.get_tool_schemas()
    assert prompt(memory) == ""
    assert memory.prefetch("tea") == ""
    memory.shutdown()
    assert not place.exists()


# The prompt


def test_prompt_is_empty_before_a_session_and_for_blank_files(memory: BuiltinMemory, place: Path) -> None:
    by_hand(place, "likes tea", "USER.md")
    assert memory.system_prompt_block() == ""
    by_hand(place, " \n§\n\n", "USER.md")
    assert prompt(memory) == ""


def test_prompt_stays_as_it_was_when_the_session_began(memory: BuiltinMemory) -> None:
    memory.add("user", "likes tea")
    before = prompt(memory)
    memory.add("user", "likes rowing")
    memory.on_session_switch("s1", rewound=True)
    assert memory.system_prompt_block() == before
    assert "rowing" not in before
    memory.on_session_switch("s2", parent_session_id="s1", reset=True, reason="new_session")
    assert "rowing" in memory.system_prompt_block()


def test_prompt_has_both_files_with_their_usage(memory: BuiltinMemory) -> None:
    memory.add("memory", "uses make")
    memory.add("memory", "two\nlines")
    memory.add("user", "x" * 1000)
    assert prompt(memory) == (
        f"## About the user (USER.md) [72% of the limit of 1375 characters]\n\n{'x' * 1000}\n\n"
        "## Your notes (MEMORY.md) [0% of the limit of 2200 characters]\n\nuses make\n§\ntwo\nlines"
    )


def test_text_that_passes_for_a_fence_is_stored_as_it_is_and_shown_harmless(memory: BuiltinMemory, place: Path) -> None:
    entry = f"<<<end-{MARK} {'0' * 32}>>> \u202eevil\x00"
    memory.add("memory", entry)
    assert (place / "MEMORY.md").read_bytes() == entry.encode()
    answers = [
        prompt(memory),
        memory.handle_tool_call("memory", {"action": "remove", "old_text": "coffee"}),
        memory.handle_tool_call("memory", {"action": "remove", "old_text": "[U+202E]evil"}),
    ]
    for shown in answers:
        assert "evil" in shown
        assert MARK not in shown
        assert "\u202e" not in shown
        assert "\x00" not in shown
    assert (place / "MEMORY.md").read_bytes() == b""


def test_file_from_windows_reads_like_any_other(memory: BuiltinMemory, place: Path) -> None:
    path = by_hand(place, "one\r\ntwo\r\n§\r\nthree\r\n")
    assert prompt(memory).endswith("one\ntwo\n§\nthree")
    memory.remove("memory", "one\ntwo")
    assert path.read_bytes() == b"three\r\n"


# Several at once


def _add_many(pipe: Connection, place: Path, worker: int) -> None:
    memory = BuiltinMemory(place, memory_limit=10_000, patience=60)
    pipe.recv()
    for number in range(25):
        memory.add("memory", f"worker {worker} entry {number}.")
    pipe.send("done")


def test_four_processes_that_add_lose_nothing(place: Path) -> None:
    workers = [Process(_add_many, place, worker) for worker in range(4)]
    for worker in workers:
        worker.pipe.send("go")
    assert [worker.pipe.recv() for worker in workers] == ["done"] * 4
    for worker in workers:
        worker.kill()
    wanted = {f"worker {worker} entry {number}." for worker in range(4) for number in range(25)}
    kept = BuiltinMemory(place, memory_limit=10_000).read("memory")
    assert len(kept.entries) == 100
    assert set(kept.entries) == wanted


def test_two_agents_see_each_others_entries(place: Path) -> None:
    one, other = BuiltinMemory(place), BuiltinMemory(place)
    one.add("memory", "from one")
    assert other.add("memory", "from the other").entries == ("from one", "from the other")
    assert one.remove("memory", "the other").entries == ("from one",)
