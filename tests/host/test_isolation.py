"""A provider behind its guard: whatever it raises or fails to give, the answer is nothing and the log is mute."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strongroom.host.isolation import IsolatedProvider
from strongroom.host.plugins.hermes_stubs import get_hermes_home
from strongroom.host.worker_pool import Workers
from tests.host.doubles import PATIENCE, Garbage, Held, Raising, Recorder, Seen

SECRET = "plum-harbour-7731"


class Nasty(Exception):
    """An error that fails when it is looked at."""

    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __str__


ERRORS: list[Callable[[str], BaseException]] = [
    ValueError,
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    StopIteration,
    RecursionError,
    MemoryError,
    concurrent.futures.CancelledError,
    TimeoutError,
    Nasty,
]


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers("guarding", 4)
    yield made
    made.close()


@pytest.fixture
def guard(workers: Workers, tmp_path: Path) -> Callable[[Any], IsolatedProvider]:
    return lambda provider: IsolatedProvider.named(provider, workers, tmp_path, PATIENCE)


@pytest.mark.requirement("host-faults-isolated")
@pytest.mark.parametrize("error", ERRORS)
def test_error_of_a_provider_ends_at_the_guard(
    error: Callable[[str], BaseException], guard: Callable[[Any], IsolatedProvider], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    guarded = guard(Raising(("prefetch", "sync_turn"), error, SECRET))
    assert guarded.ask("prefetch", PATIENCE, "nothing", "query") == "nothing"
    assert not guarded.tell("sync_turn", "u", "a")
    assert guarded.text("prefetch", PATIENCE, "query") == ""
    said = [record.getMessage() for record in caplog.records]
    assert ["prefetch" in said[0], "sync_turn" in said[1], len(said)] == [True, True, 2]
    assert all("memory provider raising" in one for one in said)
    assert SECRET not in caplog.text


@pytest.mark.requirement("host-faults-isolated")
def test_log_names_provider_hook_kind_and_place_and_keeps_the_message_for_debugging(
    guard: Callable[[Any], IsolatedProvider], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    guard(Raising(("sync_turn",), ValueError, SECRET)).tell("sync_turn", SECRET, SECRET)
    loud = [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert [record.name for record in loud] == ["strongroom.host"]
    said = loud[0].getMessage()
    assert all(word in said for word in ("raising", "sync_turn", "ValueError", "doubles.py:"))
    assert SECRET not in said
    assert loud[0].exc_info is None
    assert SECRET in caplog.text


def test_hook_that_fails_each_time_is_loud_once_for_each_kind_of_error(
    guard: Callable[[Any], IsolatedProvider], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    errors: Iterator[type[Exception]] = iter([ValueError, ValueError, OSError, ValueError, OSError])
    guarded = guard(Raising(("sync_turn", "prefetch"), lambda text: next(errors)(text), SECRET))
    assert not any(guarded.tell("sync_turn", "u", "a") for _ in range(4))
    guarded.ask("prefetch", PATIENCE, "", "q")
    assert [record.getMessage().split(" at ")[0] for record in caplog.records] == [
        "memory provider raising: sync_turn raised ValueError",
        "memory provider raising: sync_turn raised OSError",
        "memory provider raising: prefetch raised OSError",
    ]


@pytest.mark.requirement("host-faults-isolated")
@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_hook_on_the_callers_thread_raises_nothing_there(error: Callable[[str], BaseException], tmp_path: Path) -> None:
    guarded = IsolatedProvider(Raising(("is_available", "prefetch"), error, SECRET), "own", None, tmp_path)
    assert guarded.available(PATIENCE) is False
    assert guarded.ask("prefetch", PATIENCE, "nothing", "q") == "nothing"


def test_interrupt_by_the_user_is_not_swallowed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        IsolatedProvider(Raising(("prefetch",), KeyboardInterrupt, SECRET), "own", None, tmp_path).ask(
            "prefetch", 1, "", "q"
        )


@pytest.mark.requirement("host-faults-isolated")
@pytest.mark.parametrize("answer", [7, b"x", {"a": 1}, ["x"], object(), True])
def test_answer_that_is_no_text_is_no_text(
    answer: Any, guard: Callable[[Any], IsolatedProvider], caplog: pytest.LogCaptureFixture
) -> None:
    assert guard(Garbage(answer)).text("prefetch", PATIENCE, "query") == ""
    assert "garbage" in caplog.text


def test_no_answer_is_no_text_and_no_news(
    guard: Callable[[Any], IsolatedProvider], caplog: pytest.LogCaptureFixture
) -> None:
    assert guard(Garbage(None)).text("prefetch", PATIENCE, "query") == ""
    assert caplog.text == ""


@pytest.mark.requirement("host-prefetch-deadline")
def test_provider_that_is_late_is_skipped_until_it_has_returned(
    guard: Callable[[Any], IsolatedProvider], caplog: pytest.LogCaptureFixture
) -> None:
    provider = Held(("prefetch",))
    guarded = guard(provider)
    assert guarded.text("prefetch", 0.05, "first") == ""
    assert "held" in caplog.text
    assert guarded.text("prefetch", PATIENCE, "second") == ""
    assert guarded.ask("on_pre_compress", PATIENCE, "skipped", []) == "skipped"
    assert provider.seen.hooks == ["prefetch"]
    provider.release.set()
    assert provider.returned.wait(PATIENCE)
    late = guarded._late
    assert late is not None
    late.result(PATIENCE)
    assert guarded.text("prefetch", PATIENCE, "third") == "about third"
    assert [args[0] for args, _ in provider.seen.of("prefetch")] == ["first", "third"]


@pytest.mark.requirement("host-prefetch-deadline")
def test_call_that_waits_for_a_thread_too_long_is_never_made(tmp_path: Path) -> None:
    workers, release = Workers("one", 1), threading.Event()
    holding = workers.call(lambda: release.wait(PATIENCE))
    seen = Seen()
    guarded = IsolatedProvider(Recorder(seen), "recorder", workers, tmp_path)
    assert guarded.text("prefetch", 0.05, "old question") == ""
    release.set()
    assert holding.result(PATIENCE)
    assert guarded.text("prefetch", PATIENCE, "new question") == "about new question"
    assert [args[0] for args, _ in seen.of("prefetch")] == ["new question"]
    workers.close()


def test_method_that_is_missing_counts_as_the_interfaces_own(guard: Callable[[Any], IsolatedProvider]) -> None:
    class Bare:
        name = "bare"

    guarded = guard(Bare())
    assert guarded.text("prefetch", PATIENCE, "q", session_id="s") == ""
    assert guarded.tell("sync_turn", "u", "a", session_id="s", messages=[])
    assert guarded.tell("on_session_switch", "s2", parent_session_id="", reset=True, reason="new")
    assert guarded.ask("handle_tool_call", PATIENCE, "refused", "t", {}) == "refused"
    assert guarded.tell("shutdown")


@pytest.mark.requirement("host-faults-isolated")
def test_attribute_that_raises_when_it_is_looked_up_is_a_fault_like_others(
    guard: Callable[[Any], IsolatedProvider],
) -> None:
    class Lookup:
        name = "lookup"

        @property
        def sync_turn(self) -> None:
            raise RuntimeError(SECRET)

    assert not guard(Lookup()).tell("sync_turn", "u", "a")


@pytest.mark.requirement("host-faults-isolated")
@pytest.mark.parametrize("thing", [None, 7, "text"])
def test_hook_that_cannot_be_called_is_a_fault_like_others(
    thing: Any, guard: Callable[[Any], IsolatedProvider]
) -> None:
    class Odd:
        name = "odd"
        system_prompt_block = thing

    assert guard(Odd()).text("system_prompt_block", PATIENCE) == ""


@pytest.mark.requirement("host-faults-isolated")
@pytest.mark.parametrize("about", [{"hook": "x"}, {"seconds": 1}, {"otherwise": 2}, {"self": 3}, {"args": 4}])
def test_argument_that_a_runtime_adds_may_have_any_name(
    about: dict[str, Any], guard: Callable[[Any], IsolatedProvider]
) -> None:
    class Any_:  # noqa: N801
        name = "any"

        def on_turn_start(*args: Any, **kwargs: Any) -> Any:
            return kwargs

        on_delegation = on_turn_start

    assert guard(Any_()).ask("on_turn_start", PATIENCE, None, 1, "m", **about) == about
    assert guard(Any_()).tell("on_delegation", "t", "r", **about)


def test_each_call_finds_the_home_of_its_host(guard: Callable[[Any], IsolatedProvider], tmp_path: Path) -> None:
    class Homely:
        name = "homely"

        def prefetch(self, query: str) -> str:
            return str(get_hermes_home())

    assert guard(Homely()).text("prefetch", PATIENCE, "q") == str(tmp_path)


@pytest.mark.parametrize(
    ("given", "name"),
    [("mine", "mine"), ("", "Named"), ("  ", "Named"), (None, "Named"), (7, "Named"), (["x"], "Named")],
)
def test_provider_without_a_name_is_called_after_its_class(
    given: Any, name: str, guard: Callable[[Any], IsolatedProvider]
) -> None:
    class Named:
        def __init__(self) -> None:
            self.name = given

    assert guard(Named()).name == name


@pytest.mark.requirement("host-faults-isolated")
@pytest.mark.parametrize("error", [ValueError, SystemExit, AttributeError, KeyboardInterrupt, GeneratorExit])
def test_name_that_raises_is_that_of_the_class(
    error: type[BaseException], guard: Callable[[Any], IsolatedProvider], caplog: pytest.LogCaptureFixture
) -> None:
    class Nameless:
        @property
        def name(self) -> str:
            raise error(SECRET)

    assert guard(Nameless()).name == "Nameless"
    assert SECRET not in caplog.text


@pytest.mark.requirement("host-faults-isolated")
def test_name_of_a_class_of_its_own_is_read_as_plain_text(guard: Callable[[Any], IsolatedProvider]) -> None:
    name = guard(_called(Hostile("mine"))).name
    assert (type(name), name) == (str, "mine")


@pytest.mark.requirement("host-faults-isolated")
def test_name_that_hangs_is_that_of_the_class_once_the_limit_is_over(workers: Workers, tmp_path: Path) -> None:
    release = threading.Event()

    class Hanging(Recorder):
        @property
        def name(self) -> str:
            release.wait(PATIENCE)
            return "hanging"

    guarded = IsolatedProvider.named(Hanging(), workers, tmp_path, 0.05)
    assert (guarded.name, guarded.late) == ("Hanging", True)
    assert not guarded.available(PATIENCE)
    release.set()


@pytest.mark.requirement("host-faults-isolated")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_answer_that_raises_when_it_is_looked_at_is_no_answer(
    error: type[BaseException], guard: Callable[[Any], IsolatedProvider]
) -> None:
    class Liar:
        @property  # type: ignore[misc]
        def __class__(self) -> Any:
            raise error(SECRET)

        def __bool__(self) -> bool:
            raise error(SECRET)

    guarded = guard(Garbage(Liar(), but=()))
    assert guarded.text("prefetch", PATIENCE, "q") == ""
    assert guarded.available(PATIENCE) is False


class Hostile(str):
    """A text in which everything that one does with a text ends the process."""

    def __getattribute__(self, name: str) -> Any:
        raise KeyboardInterrupt(SECRET)

    def __str__(self) -> str:
        raise KeyboardInterrupt(SECRET)

    __repr__ = __len__ = __hash__ = __iter__ = __str__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise KeyboardInterrupt(SECRET)

    def __format__(self, how: str) -> str:
        raise KeyboardInterrupt(SECRET)


def _called(name: object) -> Any:
    class Called:
        def __init__(self) -> None:
            self.name = name

    return Called()
