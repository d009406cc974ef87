"""The host: what it refuses to start with, what it never lets a provider do to it, and how it ends."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from strongroom.errors import InvalidRequest, KeyUnavailable, ProviderMissing
from strongroom.host import Host, Limits, MemoryProvider
from strongroom.host.worker_pool import Lane
from tests.host.doubles import LONG, PATIENCE, SHORT, FileProvider, Held, Recorder, Seen, hosted, session

SECRET = "plum-harbour-7731"


# What it refuses


@pytest.mark.requirement("host-journal-sealed")
def test_host_without_its_key_does_not_start_where_turns_wait(tmp_path: Path) -> None:
    with hosted(tmp_path, Recorder(answers={"sync_turn": lambda *_: 1 / 0})) as host:
        host.manager(session()).sync_turn("waits", "answer")
    (tmp_path / "keys" / "journal.key").unlink()
    with pytest.raises(KeyUnavailable) as caught:
        Host(tmp_path / "home", keys=tmp_path / "keys")
    assert caught.value.reason == "key_unavailable"


@pytest.mark.requirement("host-journal-sealed")
def test_host_whose_key_others_can_read_does_not_start(tmp_path: Path) -> None:
    Host(tmp_path / "home", keys=tmp_path / "keys").close()
    (tmp_path / "keys" / "journal.key").chmod(0o644)
    with pytest.raises(KeyUnavailable) as caught:
        Host(tmp_path / "home", keys=tmp_path / "keys")
    assert caught.value.reason == "key_unavailable"


@pytest.mark.requirement("host-journal-sealed")
def test_key_is_not_in_the_home(tmp_path: Path) -> None:
    Host(tmp_path / "home", keys=tmp_path / "keys").close()
    key = (tmp_path / "keys" / "journal.key").read_bytes()
    assert len(key) == 32
    assert not any(key in file.read_bytes() for file in (tmp_path / "home").rglob("*") if file.is_file())


def test_provider_that_nobody_knows_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ProviderMissing):
        Host(tmp_path / "home", "no-such-provider", keys=tmp_path / "keys")


def test_closed_host_makes_no_manager(tmp_path: Path) -> None:
    with hosted(tmp_path, lambda: Recorder(Seen())) as host:
        host.manager(session())
    with pytest.raises(InvalidRequest):
        host.manager(session(2))
    host.close()


@pytest.mark.parametrize("field", [field.name for field in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_limit_of_nothing_is_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidRequest):
        Limits(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["prefetch", "drain", "shutdown", "initialize"])
@pytest.mark.parametrize("value", [math.inf, 1e30])
def test_limit_that_no_clock_can_wait_for_is_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidRequest):
        Limits(**{field: value})  # type: ignore[arg-type]


# Providers that cannot be had


class _Nameless(Recorder):
    @property
    def name(self) -> str:
        raise RuntimeError(SECRET)


class _Unsure:
    def __bool__(self) -> bool:
        raise RuntimeError(SECRET)


class _UnsureProvider(Recorder):
    def is_available(self) -> Any:
        return _Unsure()


def _raising(error: BaseException) -> Any:
    def make() -> MemoryProvider:
        raise error

    return make


@pytest.mark.requirement("host-faults-isolated")
@pytest.mark.parametrize(
    "make",
    [
        _raising(ValueError(SECRET)),
        _raising(SystemExit(SECRET)),
        _raising(ImportError(SECRET)),
        lambda: None,
        lambda: 7,
        lambda: "recorder",
        lambda: Recorder,
        lambda: Recorder(answers={"is_available": False}),
        lambda: Recorder(answers={"is_available": lambda: 1 / 0}),
        _UnsureProvider,
    ],
    ids=["error", "exit", "import", "none", "int", "text", "class", "unavailable", "raising", "unsure"],
)
def test_provider_that_cannot_be_made_leaves_the_built_in_memory(
    tmp_path: Path, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with hosted(tmp_path, make) as host:
        memory = host.manager(session())
        assert memory.external is None
        assert [schema["name"] for schema in memory.get_tool_schemas()] == ["memory"]
    assert caplog.records
    assert SECRET not in caplog.text


@pytest.mark.requirement("host-faults-isolated")
@pytest.mark.parametrize("slow", ["factory", "is_available", "get_tool_schemas"])
def test_provider_that_hangs_before_it_begins_holds_up_no_agent(
    tmp_path: Path, slow: str, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()

    def make() -> Recorder:
        if slow == "factory":
            release.wait(PATIENCE)
        return Held((slow,), release=release)

    with hosted(tmp_path, make, SHORT) as host:
        memory = host.manager(session())
        assert not release.is_set()
        assert [schema["name"] for schema in memory.get_tool_schemas()] == ["memory"]
        release.set()
    assert caplog.records


@pytest.mark.requirement("host-faults-isolated")
def test_provider_whose_name_raises_is_used_under_its_class(tmp_path: Path) -> None:
    with hosted(tmp_path, _Nameless) as host:
        assert isinstance(host.manager(session()).external, _Nameless)


@pytest.mark.requirement("host-faults-isolated")
def test_provider_with_the_name_of_the_built_in_memory_costs_no_agent(tmp_path: Path) -> None:
    with hosted(tmp_path, lambda: Recorder(name="builtin")) as host:
        memory = host.manager(session())
        assert memory.external is None
        assert memory.builtin is not None


class _Named(Recorder):
    """A provider whose name is whatever a function gives."""

    def __init__(self, said: Callable[[], Any]) -> None:
        super().__init__(Seen())
        self._said = said

    @property
    def name(self) -> str:
        return str.__str__(self._said())


@pytest.mark.requirement("host-faults-isolated")
def test_provider_whose_name_hangs_is_left_out_and_holds_up_no_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    with hosted(tmp_path, lambda: _Named(lambda: release.wait(PATIENCE) and "late"), SHORT) as host:
        memory = host.manager(session())
        assert (memory.external, memory.external_name) == (None, "")
        assert memory.builtin is not None
        assert "_Named: name took more than 0.1 s" in caplog.text
        release.set()


@pytest.mark.requirement("host-faults-isolated")
@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_provider_whose_name_raises_goes_by_its_class(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> str:
        raise error(SECRET)

    with hosted(tmp_path, lambda: _Named(fail)) as host:
        memory = host.manager(session())
        assert memory.external_name == "_Named"
        assert "about plums" in memory.prefetch("plums")


def test_each_agent_has_a_provider_object_of_its_own(tmp_path: Path) -> None:
    seen = Seen()
    with hosted(tmp_path, lambda: Recorder(seen)) as host:
        first, second = host.manager(session(1)), host.manager(session(2))
        assert first.external is not second.external
    assert seen.made == 2


# People


def test_two_people_in_one_host_never_see_each_others_notes(tmp_path: Path) -> None:
    with hosted(tmp_path, lambda: Recorder(Seen())) as host:
        people: dict[str, dict[str, Any]] = {
            "alice": {"platform": "telegram", "user_id": "1"},
            "bob": {"platform": "telegram", "user_id": "2"},
            "group": {"platform": "telegram", "user_id": "1", "chat_type": "group", "chat_id": "9"},
            "by chat": {"platform": "telegram", "chat_id": "3", "chat_type": "dm"},
            "owner": {},
        }
        for who, known in people.items():
            memory = host.manager(session(1, **known))
            assert memory.builtin is not None
            memory.builtin.add("user", f"note of {who}")
        for number, (who, known) in enumerate(people.items()):
            block = host.manager(session(number, **known)).system_prompt_block()
            assert [other for other in people if f"note of {other}" in block] == [who]


def test_sixteen_chats_on_threads_of_their_own_hear_only_themselves(tmp_path: Path) -> None:
    class Mine(Recorder):
        def initialize(self, session_id: str, **kwargs: Any) -> None:
            self.mine = kwargs["user_id"]

        def prefetch(self, query: str, *, session_id: str = "") -> str:
            return f"[{self.mine}|{query}]"

    wrong = list[str]()

    def chat(who: str) -> None:
        memory = host.manager(session(1, user_id=who))
        for number in range(20):
            text = memory.prefetch(f"{who}-{number}")
            if f"[{who}|{who}-{number}]" not in text:
                wrong.append(text)

    with hosted(tmp_path, lambda: Mine(Seen())) as host:
        threads = [threading.Thread(target=chat, args=(f"user{number}",)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert wrong == []


# The beginning and the end


@pytest.mark.requirement("host-sync-durable")
def test_every_manager_waits_for_the_recovery(tmp_path: Path) -> None:
    with hosted(tmp_path, Recorder(answers={"sync_turn": lambda *_: 1 / 0})) as host:
        host.manager(session(2)).sync_turn("earlier", "answer")
    seen, release, made = Seen(), threading.Event(), threading.Semaphore(0)

    def make() -> Recorder:
        provider = Held(("sync_turn",), seen, release, name="recorder")
        made.release()
        return provider

    with hosted(tmp_path, make) as host:
        threads = [threading.Thread(target=host.manager, args=(session(number),)) for number in (1, 2)]
        for thread in threads:
            thread.start()
        assert made.acquire(timeout=PATIENCE)
        assert not made.acquire(timeout=0.3)
        release.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert seen.turns == ["earlier"]


@pytest.mark.requirement("host-shutdown-bounded")
def test_closing_a_host_ends_every_agent_that_is_left(tmp_path: Path) -> None:
    seen = Seen()
    with hosted(tmp_path, lambda: Recorder(seen)) as host:
        memories = [host.manager(session(number)) for number in range(5)]
        memories[0].end()
        for memory in memories:
            memory.sync_turn(f"of {memory.session.id}", "answer")
    assert seen.hooks.count("shutdown") == 5
    assert sorted(seen.turns) == [f"of s{number}" for number in range(1, 5)]
    assert list((tmp_path / "home" / "memory-journal").iterdir()) == []


@pytest.mark.requirement("host-shutdown-bounded")
def test_closing_a_host_with_many_wedged_agents_waits_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release, waited = threading.Event(), list[float]()
    real = Lane.drained

    def drained(lane: Lane, seconds: float) -> bool:
        waited.append(seconds)
        return real(lane, seconds)

    monkeypatch.setattr(Lane, "drained", drained)
    host = Host(
        tmp_path / "home",
        lambda: Held(("sync_turn", "shutdown"), release=release),
        limits=replace(SHORT, initialize=PATIENCE, keeping_threads=4),
        keys=tmp_path / "keys",
    )
    memories = [host.manager(session(number)) for number in range(20)]
    for memory in memories:
        memory.sync_turn("wedged", "answer")
    host.close()
    assert len(waited) == 20
    assert sum(waited) < 20 * SHORT.drain
    assert not release.is_set()
    release.set()


@pytest.mark.requirement("host-shutdown-bounded")
def test_closed_host_leaves_no_thread_behind(tmp_path: Path) -> None:
    before = threading.enumerate()
    host = Host(tmp_path / "home", lambda: Recorder(Seen()), limits=LONG, keys=tmp_path / "keys")
    memory = host.manager(session())
    memory.sync_turn("u", "a")
    memory.prefetch("q")
    assert host.threads
    host.close()
    for thread in [one for one in threading.enumerate() if one not in before]:
        thread.join(PATIENCE)
    assert host.threads == 0


@pytest.mark.requirement("host-shutdown-bounded")
def test_caller_after_the_close_is_answered_at_once(tmp_path: Path) -> None:
    with hosted(tmp_path, lambda: Recorder(Seen()), LONG) as host:
        memory = host.manager(session())
    done = threading.Event()

    def ask() -> None:
        memory.on_turn_start("hello")
        memory.prefetch("hello")
        memory.handle_tool_call("recall", {})
        memory.system_prompt_block()
        memory.sync_turn("u", "a")
        memory.on_pre_compress([])
        memory.end()
        done.set()

    threading.Thread(target=ask, daemon=True).start()
    assert done.wait(PATIENCE / 4)


def test_two_hosts_in_one_process_do_not_touch_each_other(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with (
        hosted(tmp_path, lambda: FileProvider(first, "first")) as one,
        hosted(tmp_path, lambda: FileProvider(second, "second")) as other,
    ):
        one.manager(session(1)).sync_turn("in one", "answer")
        other.manager(session(1)).sync_turn("in other", "answer")
    assert "in one" in first.read_text()
    assert "in other" not in first.read_text()
    assert "in other" in second.read_text()


def test_user_hears_that_a_provider_is_not_available(tmp_path: Path) -> None:
    heard: list[str] = []
    with hosted(tmp_path, lambda: Recorder(answers={"is_available": False})) as host:
        host.manager(session(warning_callback=heard.append))
    assert len(heard) == 1
