"""The built-in memory, mirrored: added, replaced, removed, imported once; and nobody else's."""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys
from strongroom.errors import InvalidRequest, ServerUnavailable
from strongroom.hermes import cap_file
from strongroom.host.memory_file_import import MARKER, migrate_memory_files
from strongroom.model import Kind
from tests.hermes.provider.conftest import DM, GROUP, GROUP_ACTOR, OWNER, SCOPE, Served, Wired, say
from tests.hermes.provider.people import OFF


def write(wired: Wired, name: str, text: str) -> None:
    place = wired.path / "memories" / name
    place.parent.mkdir(exist_ok=True)
    place.write_text(text, encoding="utf-8")


# What is added, replaced, removed.


@pytest.mark.requirement("hermes-mirror")
def test_note_is_a_fact_that_names_its_file(either: Wired) -> None:
    either.agent().on_memory_write("add", "user", "Likes tea.", {"session_id": "s1"})
    (line,) = either.lines()
    assert (line.text, line.kind, line.author) == ("Likes tea.", Kind.FACT, "hermes user")


@pytest.mark.requirement("hermes-mirror")
@pytest.mark.parametrize("old", ["Likes tea.", "tea", "Likes"])
def test_removed_note_is_forgotten(either: Wired, old: str) -> None:
    agent = either.agent()
    agent.on_memory_write("add", "user", "Likes tea.")
    agent.on_memory_write("add", "user", "Lives in Berlin.")
    agent.on_memory_write("remove", "user", "", {"old_text": old})
    assert either.texts() == ["Lives in Berlin."]
    assert either.agent("s2").prefetch("Do I like tea?").count("tea") == 0


@pytest.mark.requirement("hermes-mirror")
def test_replaced_note_is_forgotten_and_the_new_one_kept(either: Wired) -> None:
    agent = either.agent()
    agent.on_memory_write("add", "memory", "The server is in Berlin.")
    agent.on_memory_write("replace", "memory", "The server is in Paris.", {"old_text": "in Berlin"})
    assert either.texts() == ["The server is in Paris."]


@pytest.mark.parametrize("old", ["Likes tea.", "tea"])
def test_note_that_is_replaced_by_itself_stays(wired: Wired, old: str) -> None:
    agent = wired.agent()
    agent.on_memory_write("add", "user", "Likes tea.")
    agent.on_memory_write("replace", "user", "Likes tea.", {"old_text": old})
    assert wired.texts() == ["Likes tea."]


@pytest.mark.requirement("hermes-any-script")
def test_note_is_found_however_its_letters_are_composed(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_memory_write("add", "user", unicodedata.normalize("NFC", "Trinkt gern Café, 한국어"))
    agent.on_memory_write("remove", "user", "", {"old_text": unicodedata.normalize("NFD", "Café, 한국어")})
    assert wired.texts() == []


@pytest.mark.parametrize("old", ["", " ", "\x00", "\x01\x02", "\ud800", "no such note"])
def test_remove_that_names_nothing_forgets_nothing(wired: Wired, old: str) -> None:
    agent = wired.agent()
    agent.on_memory_write("add", "user", "Likes tea.")
    say(agent, "hello", "hi")
    agent.on_memory_write("remove", "user", "", {"old_text": old})
    assert "Likes tea." in wired.texts()
    assert len(wired.texts()) == 3


def test_remove_forgets_notes_and_never_what_was_said(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "I like tea", "tea it is")
    agent.on_memory_write("add", "user", "tea")
    agent.on_memory_write("add", "memory", "tea")
    agent.on_memory_write("remove", "user", "", {"old_text": "tea"})
    assert wired.texts() == ["I like tea", "tea it is", "tea"]


def test_person_who_is_called_like_a_file_loses_nothing_by_a_remove(wired: Wired) -> None:
    agent = wired.agent(user_name="hermes user")
    say(agent, "I like tea", "fine")
    agent.on_memory_write("remove", "user", "", {"old_text": "tea"})
    assert wired.texts() == ["I like tea", "fine"]


def test_note_among_many_is_found(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_memory_write("add", "user", "zq")
    for number in range(45):
        wired.put(f"note {number} zq zq zq", kind="fact", author="someone else")
    agent.on_memory_write("remove", "user", "", {"old_text": "zq"})
    assert "zq" not in wired.texts()


def test_same_note_added_twice_is_kept_once_and_after_a_remove_again(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_memory_write("add", "user", "Likes tea.")
    agent.on_memory_write("add", "user", "Likes tea.")
    assert wired.texts() == ["Likes tea."]
    agent.on_memory_write("remove", "user", "", {"old_text": "Likes tea."})
    agent.on_memory_write("add", "user", "Likes tea.")
    assert wired.texts() == ["Likes tea."]


def test_remove_that_did_not_reach_the_server_is_said(remote: Served) -> None:
    agent = remote.agent()
    agent.on_memory_write("add", "user", "Likes tea.")
    remote.stop()
    with pytest.raises(ServerUnavailable):
        agent.on_memory_write("remove", "user", "", {"old_text": "tea"})
    assert "server_unavailable" in remote.problems().values()
    assert any("mirroring" in one for one in remote.warnings)


def test_setting_that_turns_mirroring_off_holds_at_once(wired: Wired) -> None:
    agent = wired.agent()
    wired.write("[keep]\nmemory_writes = false")
    agent.on_memory_write("add", "user", "Likes tea.")
    assert wired.texts() == []


@pytest.mark.parametrize(("action", "target"), [("clear", "user"), ("", ""), ("add", "something new")])
def test_unknown_action_or_file_breaks_nothing(wired: Wired, action: str, target: str) -> None:
    wired.agent().on_memory_write(action, target, "Likes tea.", None)
    assert len(wired.texts()) == (1 if action == "add" else 0)


def test_note_made_in_a_shared_chat_is_the_chats(wired: Wired) -> None:
    wired.agent(**GROUP).on_memory_write("add", "memory", "The team meets on Monday.")
    assert len(wired.texts(GROUP_ACTOR)) == 1
    assert wired.texts() == []


# The files.


@pytest.mark.requirement("hermes-import")
def test_owners_files_are_imported_once(either: Wired) -> None:
    write(either, "MEMORY.md", "The server is in Berlin.\n\u00a7\nUses vim.")
    write(either, "USER.md", "Likes tea.")
    either.agent()
    either.forget_process()
    either.agent("s2")
    assert sorted(either.texts()) == ["Likes tea.", "The server is in Berlin.", "Uses vim."]


@pytest.mark.requirement("hermes-import")
@pytest.mark.parametrize("told", [dict(DM), dict(GROUP), {"platform": "api_server"}, {"agent_context": "cron"}])
def test_files_are_imported_into_nobody_elses_memory(wired: Wired, told: dict[str, str]) -> None:
    write(wired, "MEMORY.md", "The server is in Berlin.")
    wired.agent(**told)
    for actor in (OWNER, GROUP_ACTOR, f"{SCOPE}telegram/100"):
        assert wired.texts(actor) == []
    assert not (wired.path / MARKER).exists()


@pytest.mark.requirement("hermes-import")
def test_files_are_never_imported_under_the_per_session_strategy(wired: Wired) -> None:
    write(wired, "MEMORY.md", "The server is in Berlin.")
    wired.write('[session]\nstrategy = "per-session"')
    wired.agent()
    assert wired.texts() == []


def test_file_that_changed_brings_in_what_is_new_alone(wired: Wired) -> None:
    write(wired, "MEMORY.md", "one\n\u00a7\ntwo")
    agent = wired.agent()
    agent.on_memory_write("add", "memory", "three")
    write(wired, "MEMORY.md", "one\n\u00a7\ntwo\n\u00a7\nthree\n\u00a7\nfour")
    wired.forget_process()
    wired.agent("s2")
    assert sorted(wired.texts()) == ["four", "one", "three", "two"]


def test_import_that_was_cut_short_comes_again_and_keeps_each_note_once(wired: Wired) -> None:
    write(wired, "MEMORY.md", "one\n\u00a7\ntwo")
    wired.agent()
    (wired.path / MARKER).unlink()
    wired.forget_process()
    wired.agent("s2")
    assert sorted(wired.texts()) == ["one", "two"]


@pytest.mark.requirement("hermes-import")
def test_another_vault_gets_the_files_too(wired: Wired, tmp_path: Path) -> None:
    write(wired, "USER.md", "Likes tea.")
    wired.agent()
    wired.forget_process()
    with strongroom.create(tmp_path / "other", keys=lambda name: FileKeys(tmp_path / "keys" / name)) as other:
        wired.vault = other
        cap_file.write(wired.cap, cap_file.mint(other, SCOPE, other.namespaces))
        wired.write(vault=repr(str(tmp_path / "other")))
        wired.agent("s2")
        assert wired.texts() == ["Likes tea."]


@pytest.mark.requirement("hermes-import")
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_notes_imported_by_the_version_before_are_not_imported_again(wired: Wired, is_forgotten: bool) -> None:
    write(wired, "USER.md", "Likes tea.")
    line = wired.put("Likes tea.", author="hermes user", kind="fact")
    migrate_memory_files(wired.path, wired.home.policy.session, lambda *_: None, into=OWNER)
    if is_forgotten:
        token = wired.vault.mint(actor=OWNER, ops=["forget"], namespaces=["travel"], ttl=60)
        wired.vault.memory(token).forget(ids=[line])
    wired.agent()
    wired.forget_process()
    wired.agent("s2")
    assert wired.texts() == ([] if is_forgotten else ["Likes tea."])


def test_note_that_is_there_is_not_kept_twice_after_a_purge(wired: Wired) -> None:
    write(wired, "MEMORY.md", "one\n\u00a7\ntwo")
    wired.agent()
    wired.forget_process()
    shutil.rmtree(wired.state)
    (wired.path / MARKER).unlink()
    wired.agent("s2")
    assert sorted(wired.texts()) == ["one", "two"]


def test_files_that_could_not_be_imported_yet_are_imported_later(wired: Wired) -> None:
    """The chat is off the record by the owner's policy: nothing was kept, so nothing counts as imported."""
    write(wired, "MEMORY.md", "one")
    wired.write('[off_the_record]\nplatforms = ["cli"]')
    wired.agent()
    assert wired.texts() == []
    wired.write("")
    wired.forget_process()
    wired.agent("s2")
    assert wired.texts() == ["one"]


def test_file_that_is_no_text_is_said_and_breaks_nothing(wired: Wired) -> None:
    place = wired.path / "memories" / "MEMORY.md"
    place.parent.mkdir()
    place.write_bytes(b"\xff\xfe")
    say(wired.agent(), "hello", "hi")
    assert wired.texts() == ["hello", "hi"]
    assert wired.problems()["importing the memory files"] == "invalid_request"


@pytest.mark.requirement("hermes-secrets")
def test_secret_in_an_imported_file_is_masked(wired: Wired) -> None:
    secret = "ghp_" + "a1B2" * 9
    write(wired, "MEMORY.md", f"The token is {secret}")
    wired.agent()
    assert len(wired.texts()) == 1
    assert secret not in wired.texts()[0]


@pytest.mark.requirement("hermes-mirror")
def test_none_of_several_notes_that_could_be_meant_is_forgotten_and_that_is_said(either: Wired) -> None:
    agent = either.agent()
    notes = ["Trip to Rome in May", "Rome office closed on Friday"]
    for note in notes:
        agent.on_memory_write("add", "memory", note)
    with pytest.raises(InvalidRequest):
        agent.on_memory_write("remove", "memory", "", metadata={"old_text": "Rome"})
    assert either.texts() == notes
    assert "invalid_request" in either.problems().values()
    agent.on_memory_write("remove", "memory", "", metadata={"old_text": notes[0]})
    assert either.texts() == notes[1:]


@pytest.mark.requirement("hermes-mirror")
def test_note_that_is_named_exactly_is_forgotten_and_not_its_likes(wired: Wired) -> None:
    agent = wired.agent()
    for note in ("Likes tea", "Likes tea with milk"):
        agent.on_memory_write("add", "memory", note)
    agent.on_memory_write("remove", "memory", "", metadata={"old_text": "Likes tea"})
    assert wired.texts() == ["Likes tea with milk"]


@pytest.mark.requirement("hermes-mirror")
def test_note_is_not_forgotten_for_one_that_lies_outside_the_cap(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_memory_write("add", "memory", "Flies to Rome in May")
    names = tuple(name for name in wired.vault.namespaces if name != "personal")
    cap_file.write(wired.cap, cap_file.mint(wired.vault, SCOPE, names))
    agent.on_memory_write("replace", "memory", "Has a peanut allergy", metadata={"old_text": "Rome"})
    assert wired.texts() == ["Flies to Rome in May"]


@pytest.mark.requirement("hermes-mirror")
@pytest.mark.parametrize("new", ["Prefers coffee", "Prefers tea"])
def test_off_the_record_no_note_takes_the_place_of_another(wired: Wired, new: str) -> None:
    agent = wired.agent()
    notes = ["Flies to Rome in May", "Prefers tea"]
    for note in notes:
        agent.on_memory_write("add", "memory", note)
    say(agent, OFF)
    agent.on_memory_write("replace", "memory", new, metadata={"old_text": "Rome"})
    assert wired.texts() == notes
