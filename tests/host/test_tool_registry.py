"""The tools of all providers as one list: what is not sound is left out and said so, the rest has one owner."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.host import tool_registry
from strongroom.host.isolation import IsolatedProvider
from strongroom.host.worker_pool import Workers
from tests.host.doubles import PATIENCE, TOOL, Garbage, Recorder, Seen, hosted, session

MARKED = "plum-harbour-7731"


def offering(*schemas: Any, name: str = "recorder") -> IsolatedProvider:
    return IsolatedProvider(
        Recorder(answers={"get_tool_schemas": list(schemas)}, name=name), name, Workers("w", 1), Path("home")
    )


def names(*providers: IsolatedProvider, reserved: tuple[str, ...] = ()) -> list[str]:
    schemas, routes = tool_registry.gather_tools(providers, reserved, PATIENCE)
    assert [schema["name"] for schema in schemas] == list(routes)
    return list(routes)


def tool(name: Any = "recall", **more: Any) -> dict[str, Any]:
    return {**TOOL, "name": name, **more}


@pytest.mark.parametrize(
    "given",
    [
        None,
        7,
        "recall",
        b"recall",
        [],
        {},
        {"description": "no name"},
        tool(name=None),
        tool(name=""),
        tool(name=" "),
        tool(name="a b"),
        tool(name="ünï"),
        tool(name="a\n"),
        tool(name="x" * 65),
        tool(description=None),
        tool(description=7),
        tool(parameters=None),
        tool(parameters={"properties": [1]}),
        tool(parameters={"properties": None}),
        tool(parameters={"properties": {"a": "string"}}),
        tool(parameters={"properties": {"x": {}}, "required": "x"}),
        tool(parameters={"properties": {"x": {}}, "required": [1]}),
        tool(parameters={"properties": {"x": {}}, "required": None}),
        tool(parameters={"properties": {"x": {}}, "required": ["y"]}),
        tool(parameters=[]),
        tool(parameters={"type": "string"}),
        tool(parameters={"type": "object", "properties": {"a": {1, 2}}}),
        tool(parameters={"type": "object", "default": b"bytes"}),
        tool(extra=object()),
        {"type": "function", "function": {"description": "wrapped, no name"}},
    ],
)
def test_tool_that_is_not_sound_is_left_out_and_the_next_is_there(given: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert names(offering(given, tool("good"))) == ["good"]
    assert "recorder" in caplog.text


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_number_that_json_does_not_know_makes_a_tool_unsound(number: float) -> None:
    assert names(offering(tool(parameters={"type": "object", "properties": {"a": {"default": number}}}))) == []


def test_tool_that_holds_itself_is_left_out() -> None:
    endless: dict[str, Any] = {"type": "object"}
    endless["properties"] = {"a": endless}
    assert names(offering(tool(parameters=endless), tool("good"))) == ["good"]


def test_tool_that_nests_without_end_is_left_out() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert names(offering(tool(parameters={"type": "object", "properties": deep}), tool("good"))) == ["good"]


def test_tool_too_large_for_any_model_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    assert names(offering(tool(description="x" * 10_000_000), tool("good"))) == ["good"]
    assert len(caplog.text) < 10_000


def test_more_tools_than_any_model_takes_are_left_out() -> None:
    assert len(names(offering(*(tool(f"t{number}") for number in range(5000))))) < 1000


def test_half_a_surrogate_pair_does_not_reach_the_models_api() -> None:
    schemas, _ = tool_registry.gather_tools([offering(tool(description="broken \ud800"), tool("good"))], (), PATIENCE)
    json.dumps(schemas, ensure_ascii=False).encode()


def test_wrapped_tool_is_unwrapped() -> None:
    schemas, _ = tool_registry.gather_tools([offering({"type": "function", "function": tool("wrapped")})], (), PATIENCE)
    assert schemas == [tool("wrapped")]


def test_missing_key_of_a_tool_is_filled_in_and_the_rest_stays() -> None:
    schemas, _ = tool_registry.gather_tools([offering({"name": "bare", "strict": True})], (), PATIENCE)
    assert schemas == [
        {"name": "bare", "description": "", "parameters": {"type": "object", "properties": {}}, "strict": True}
    ]


def test_parameters_without_a_type_are_those_of_an_object() -> None:
    schemas, _ = tool_registry.gather_tools(
        [offering(tool(parameters={"properties": {"a": {"type": "string"}}}))], (), PATIENCE
    )
    assert schemas[0]["parameters"]["type"] == "object"


def test_mapping_of_another_kind_is_as_good_as_a_dict() -> None:
    assert names(offering(MappingProxyType(tool("proxied")))) == ["proxied"]


def test_name_is_given_once_and_the_first_has_it(caplog: pytest.LogCaptureFixture) -> None:
    first, second = offering(tool("a"), tool("a"), name="first"), offering(tool("a"), tool("b"), name="second")
    schemas, routes = tool_registry.gather_tools([first, second], (), PATIENCE)
    assert [schema["name"] for schema in schemas] == ["a", "b"]
    assert [routes["a"].name, routes["b"].name] == ["first", "second"]
    assert "second" in caplog.text


def test_runtimes_own_names_are_never_given() -> None:
    assert names(offering(tool("terminal"), tool("b")), reserved=("terminal",)) == ["b"]


@pytest.mark.parametrize("answer", [None, 7, "tools", {"name": "x"}, {"a"}, iter([TOOL])])
def test_answer_that_is_no_list_means_no_tools(answer: Any) -> None:
    provider = IsolatedProvider(Garbage(answer), "garbage", Workers("w", 1), Path("home"))  # type: ignore[arg-type]
    assert tool_registry.gather_tools([provider], (), PATIENCE) == ([], {})


class Evil(dict[str, Any]):
    """A schema that fails when it is looked at."""

    def get(self, *_: object) -> Any:
        raise RuntimeError(MARKED)

    def __iter__(self) -> Any:
        raise RuntimeError(MARKED)


@pytest.mark.requirement("host-faults-isolated")
def test_schema_that_raises_when_it_is_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    assert names(offering(Evil(TOOL), tool("good"))) == ["good"]
    assert MARKED not in caplog.text


class EvilList(list[Any]):
    """A list that fails when it is looked at."""

    def __getitem__(self, _: Any) -> Any:
        raise RuntimeError(MARKED)

    def __iter__(self) -> Any:
        raise RuntimeError(MARKED)


@pytest.mark.requirement("host-faults-isolated")
def test_list_that_raises_when_it_is_read_means_no_tools() -> None:
    provider = IsolatedProvider(Garbage(EvilList([TOOL])), "garbage", Workers("w", 1), Path("home"))  # type: ignore[arg-type]
    assert tool_registry.gather_tools([provider], (), PATIENCE) == ([], {})


def test_later_change_by_the_provider_changes_no_tool() -> None:
    mine = tool("mine", parameters={"type": "object", "properties": {}})
    schemas, _ = tool_registry.gather_tools([offering(mine)], (), PATIENCE)
    mine["name"] = "other"
    mine["parameters"]["properties"]["x"] = {}
    assert schemas == [tool("mine")]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=10,
)


@given(_JSON | st.dictionaries(st.sampled_from(["name", "description", "parameters", "type", "function"]), _JSON))
def test_any_answer_gives_strict_json_or_a_reason(given: Any) -> None:
    answer = tool_registry.sound(given)
    if not isinstance(answer, str):
        assert json.loads(json.dumps(answer, allow_nan=False)) == answer
        assert answer["parameters"].get("type", "object") == "object"


# Through a manager


def test_built_in_tool_comes_first_and_cannot_be_taken(tmp_path: Path) -> None:
    seen = Seen()
    provider = Recorder(seen, {"get_tool_schemas": [tool("memory"), tool("recall")]})
    with hosted(tmp_path, provider) as host:
        memory = host.manager(session())
        assert [schema["name"] for schema in memory.get_tool_schemas()] == ["memory", "recall"]
        memory.handle_tool_call("memory", {"target": "memory", "action": "add", "content": "mine"})
        assert seen.of("handle_tool_call") == []
        assert memory.builtin is not None
        assert memory.builtin.read("memory").entries == ("mine",)


def test_call_goes_to_the_one_who_has_the_tool(tmp_path: Path) -> None:
    seen = Seen()
    with hosted(tmp_path, Recorder(seen)) as host:
        memory = host.manager(session())
        assert json.loads(memory.handle_tool_call("recall", {"q": 1}, task_id="t")) == {"tool": "recall"}
    assert seen.of("handle_tool_call") == [(("recall", {"q": 1}), {"task_id": "t"})]


@pytest.mark.parametrize("name", ["", "nothing", "terminal", "handle_tool_call", "__class__"])
def test_unknown_tool_is_answered_with_an_error_in_json(tmp_path: Path, name: str) -> None:
    seen = Seen()
    with hosted(tmp_path, Recorder(seen), reserved_tools=["terminal"]) as host:
        memory = host.manager(session())
        assert "error" in json.loads(memory.handle_tool_call(name, {}))
    assert seen.of("handle_tool_call") == []


@pytest.mark.parametrize("answer", [None, 7, {"a": 1}, b"x", ["x"]])
def test_answer_that_is_no_text_becomes_an_error_in_json(tmp_path: Path, answer: Any) -> None:
    provider = Garbage(answer, but=("is_available", "initialize"))
    provider.get_tool_schemas = lambda: [TOOL]  # type: ignore[attr-defined]
    with hosted(tmp_path, provider) as host:
        memory = host.manager(session())
        assert "error" in json.loads(memory.handle_tool_call("recall", {}))
