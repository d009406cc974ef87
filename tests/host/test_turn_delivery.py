"""A turn on its way to the provider: its name, its home, and what hangs, forks or ends meanwhile."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from strongroom.errors import InvalidRequest
from strongroom.host import AgentSession, Host, MemoryProvider, Recovered
from tests.host.doubles import PATIENCE, SHORT, Held, Recorder, hosted, session

KEY = bytes(32)


class Scribe(MemoryProvider):
    """Writes turns into its home, with the name of each turn."""

    name = "scribe"

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[Any]:
        return []

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._file = Path(kwargs["hermes_home"]) / "scribe.txt"

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Any] | None = None,
        turn_id: str = "",
    ) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps([user_content, turn_id]) + "\n")


def written(home: Path) -> list[list[str]]:
    file = home / "scribe.txt"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def left_waiting(tmp_path: Path, home: Path, *users: str) -> None:
    """A host that was killed while the provider took no turn."""
    release = threading.Event()

    class Slow(Scribe):
        def sync_turn(self, *_: Any, **__: Any) -> None:
            release.wait(PATIENCE)

    host = Host(home, Slow, keys=tmp_path / "keys")
    memory = host.manager(session())
    for user in users:
        memory.sync_turn(user, "ok")
    os.close(host._shared.journal._file)  # as the end of a process does
    host._shared.journal._file = -1
    release.set()


@pytest.mark.requirement("host-sync-durable")
def test_turns_of_a_home_that_was_moved_go_to_its_new_place(tmp_path: Path) -> None:
    left_waiting(tmp_path, tmp_path / "old", "hello")
    shutil.move(tmp_path / "old", tmp_path / "new")
    with Host(tmp_path / "new", Scribe, keys=tmp_path / "keys") as host:
        assert host.recover() == Recovered(handed_over=1)
    assert [user for user, _ in written(tmp_path / "new")] == ["hello"]
    assert not (tmp_path / "old").exists()


@pytest.mark.requirement("host-sync-durable")
def test_turn_has_one_name_however_often_it_comes_and_equal_words_have_two(tmp_path: Path) -> None:
    home = tmp_path / "home"
    left_waiting(tmp_path, home, "yes", "yes")
    journal = next((home / "memory-journal").glob("*.journal"))
    copy = journal.read_bytes()
    for _ in range(2):
        journal.write_bytes(copy)
        with Host(home, Scribe, keys=tmp_path / "keys") as host:
            assert host.recover().handed_over == 2
    names = [name for _, name in written(home)]
    assert names[:2] == names[2:]
    assert len(set(names)) == 2


@pytest.mark.requirement("host-sync-durable")
def test_name_of_a_turn_is_the_same_live_and_after_a_crash(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Host(home, Scribe, keys=tmp_path / "keys") as host:
        memory = host.manager(session())
        memory.sync_turn("hello", "ok")
        assert memory.flush(PATIENCE)
        ((_, name),) = written(home)
        assert name == f"{next((home / 'memory-journal').glob('*.journal')).stem}-1"


@pytest.mark.requirement("host-faults-isolated", "host-sync-durable")
def test_provider_with_asynchronous_hooks_loses_no_turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Asynchronous(Scribe):
        async def sync_turn(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
            """Nobody awaits it."""

    home = tmp_path / "home"
    with Host(home, Asynchronous, keys=tmp_path / "keys") as host:
        memory = host.manager(session())
        memory.sync_turn("hello", "ok")
    assert "sync_turn raised TypeError" in caplog.text
    with Host(home, Scribe, keys=tmp_path / "keys") as host:
        assert host.recover() == Recovered(handed_over=1)


@pytest.mark.requirement("host-sync-durable")
def test_child_after_a_fork_can_neither_write_nor_hold_the_journal(tmp_path: Path) -> None:
    home = tmp_path / "home"
    host = Host(home, Scribe, keys=tmp_path / "keys")
    memory = host.manager(session())
    memory.sync_turn("before", "ok")
    memory.flush(PATIENCE)
    with warnings.catch_warnings():  # later versions of Python warn of what is tried here
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        refused = 0
        try:
            memory.sync_turn("in the child", "ok")
            host.manager(session(2))
        except InvalidRequest:
            refused = 1
        os._exit(0 if refused and host._shared.journal._file == -1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    memory.sync_turn("after", "ok")
    host.close()
    assert [user for user, _ in written(home)] == ["before", "after"]
    assert not list((home / "memory-journal").iterdir())


@pytest.mark.requirement("host-shutdown-bounded")
def test_provider_that_hangs_on_every_old_turn_leaves_the_host_its_threads(tmp_path: Path) -> None:
    provider = Held(("sync_turn",))
    host = Host(tmp_path / "home", lambda: provider, keys=tmp_path / "keys")
    for number in range(20):
        host.manager(session(number)).sync_turn("waits", "ok")
    os.close(host._shared.journal._file)
    host._shared.journal._file = -1
    hanging = Held(("sync_turn",))
    with hosted(tmp_path, hanging, SHORT) as later:
        assert later.recover() == Recovered(left=20)
        assert later.threads <= 4
        hanging.release.set()
    provider.release.set()


def test_session_without_an_id_an_object_for_a_factory_and_keys_in_the_home_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        Host(tmp_path / "home", Scribe(), keys=tmp_path / "keys")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        Host(tmp_path / "home", Scribe, keys=tmp_path / "home" / "keys")
    with Host(str(tmp_path / "home"), Scribe, keys=str(tmp_path / "keys")) as host, pytest.raises(InvalidRequest):
        host.manager(AgentSession(""))


@pytest.mark.parametrize("odd", [None, ["text"], 7])
def test_turn_that_is_no_text_is_refused_with_a_hint(tmp_path: Path, odd: Any) -> None:
    with hosted(tmp_path, Recorder()) as host:
        memory = host.manager(session())
        for call in (
            lambda: memory.sync_turn(odd, "a"),
            lambda: memory.sync_turn("u", odd),
            lambda: memory.prefetch(odd),
        ):
            with pytest.raises(InvalidRequest) as refused:
                call()
            assert refused.value.hint


def test_turn_after_the_end_is_said_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with hosted(tmp_path, Recorder()) as host:
        memory = host.manager(session())
        memory.end()
        memory.sync_turn("u", "a")
    assert "after the end" in caplog.text


def test_relative_home_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Host("home", Scribe, keys="keys") as host:
        memory = host.manager(session())
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        memory.sync_turn("hello", "ok")
    assert [user for user, _ in written(tmp_path / "home")] == ["hello"]


@pytest.mark.requirement("host-threads-bounded")
def test_queue_of_a_provider_that_hangs_is_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    provider = Held(("sync_turn",))
    with hosted(tmp_path, provider, SHORT) as host:
        memory = host.manager(session())
        memory.sync_turn("u", "a")
        for _ in range(1000):
            memory.on_delegation("task", "result")
        assert memory._keeping is not None
        assert len(memory._keeping._lane) <= SHORT.waiting_turns + 64
        provider.release.set()
    assert "on_delegation is skipped for it" in caplog.text


def test_log_says_how_many_turns_were_handed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    left_waiting(tmp_path, tmp_path / "home", "one", "two")
    with (
        caplog.at_level(logging.INFO, "strongroom.host"),
        Host(tmp_path / "home", Scribe, keys=tmp_path / "keys") as host,
    ):
        host.recover()
    assert "2 turns of earlier processes were handed over" in caplog.text


def test_signature_that_an_object_alone_has_is_asked(tmp_path: Path) -> None:
    def made() -> Scribe:
        provider = Scribe()
        vars(provider)["identity_signature"] = lambda: {"scribe.peer": "alice"}
        return provider

    with hosted(tmp_path, made) as host:
        assert host.manager(session()).cache_busting_signature() == {"scribe.peer": "alice"}
