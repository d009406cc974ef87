"""config.yaml: refusals first, then that one key changes and every other byte stays."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.errors import InvalidRequest
from strongroom.extras import how_to_install
from strongroom.hermes.install import config_yaml

NAME = "strongroom"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nkey: [hunter2\n", "expected ',' or ']'"),
        ("key: hunter2\nkey: b\n", "duplicate key"),
        ("key: 'hunter2\n", "end of stream"),
        ("key: !hunter2 x\n", "tag"),
        ("hunter2: a: b\n", "mapping values"),
    ],
)
def test_config_error_is_said_to_the_end_and_quotes_nothing_of_the_file(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        config_yaml.read(text)
    assert said in refused.value.message
    assert "(line " in refused.value.message
    assert "hunter2" not in refused.value.message


@pytest.mark.requirement("wire-config-kept")
@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2\n",  # a key twice
        "memory:\n  provider: a\n  provider: b\n",
        "x: [\n",
        "x: 'never closed\n",
        "a: 1\n---\nb: 2\n",  # two documents
        "- a\n- b\n",  # no mapping
        "just a text\n",
        "a: !env HOME\n",  # a tag that Hermes does not know either
        "\tmemory: 1\n",
        "a: \x00\n",
    ],
)
def test_unreadable_config_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        config_yaml.read(text)
    assert refused.value.reason == "invalid_request"


@pytest.mark.requirement("wire-config-kept")
@pytest.mark.parametrize(
    "text",
    [
        "p: &p x\nmemory:\n  provider: *p\n",  # the value stands elsewhere
        "memory:\n  provider: &p q\nz: *p\n",  # and others depend on it
        "m: &m {a: 1}\nmemory: *m\n",
        "memory: 5\n",
        "memory: []\n",
        "memory: some text\n",
    ],
)
def test_setting_that_cannot_be_changed_alone_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        config_yaml.with_provider(text, NAME)


def test_unreadable_file_is_named_without_what_stands_in_it() -> None:
    with pytest.raises(InvalidRequest) as refused:
        config_yaml.read("key: \"sk-very-secret\nother: 'sk-other-secret\n")
    assert "secret" not in f"{refused.value.message}{refused.value.hint}"


def test_package_to_install_is_named_without_ruamel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    monkeypatch.setitem(sys.modules, "ruamel", None)
    with pytest.raises(InvalidRequest) as refused:
        config_yaml.read("a: 1\n")
    assert refused.value.hint == how_to_install("hermes", sys.executable)


@pytest.mark.requirement("wire-config-kept")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "memory:\n  provider: strongroom\n"),
        ("# only a remark\n", "# only a remark\nmemory:\n  provider: strongroom\n"),
        ("a: 1", "a: 1\nmemory:\n  provider: strongroom\n"),
        ("---\na: 1\n...\n", "---\na: 1\nmemory:\n  provider: strongroom\n...\n"),
        ("{a: 1}\n", "{memory: {provider: strongroom}, a: 1}\n"),
        ("{}\n", "{memory: {provider: strongroom}}\n"),
        ("memory:  # mine\nz: 1\n", "memory: {provider: strongroom}  # mine\nz: 1\n"),
        ("memory: ~ # x\n", "memory: {provider: strongroom} # x\n"),
        ("memory:\n  provider: x # c\n", "memory:\n  provider: strongroom # c\n"),
        ("memory:\n    provider: ''\n", "memory:\n    provider: strongroom\n"),
        ("memory:\n  provider:\n  b: 1\n", "memory:\n  provider: strongroom\n  b: 1\n"),
        ("memory:\n  # c\n  a: 1\n\nz: [1,   2]\n", "memory:\n  # c\n  provider: strongroom\n  a: 1\n\nz: [1,   2]\n"),
        ("memory: {a: 1}\n", "memory: {provider: strongroom, a: 1}\n"),
        ("memory: &m\n  provider: 'y'\nn: *m\n", None),
        (
            "d: &d {provider: q}\nmemory:\n  <<: *d\n",
            "d: &d {provider: q}\nmemory:\n  provider: strongroom\n  <<: *d\n",
        ),
        ("\ufeffa: é\r\nmemory: {b: 1}\r\n", "\ufeffa: é\r\nmemory: {provider: strongroom, b: 1}\r\n"),
        ("a: 1\r\n", "a: 1\r\nmemory:\r\n  provider: strongroom\r\n"),
        ("memory:\n  provider: strongroom  # it is\n", "memory:\n  provider: strongroom  # it is\n"),
    ],
)
def test_only_the_provider_changes(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(InvalidRequest):
            config_yaml.with_provider(text, NAME)
        return
    assert config_yaml.with_provider(text, NAME) == expected
    assert config_yaml.with_provider(expected, NAME) == expected
    assert yaml.safe_load(expected)["memory"]["provider"] == NAME, "as Hermes reads it"


_scalars = st.none() | st.booleans() | st.integers(-99, 99) | st.text("ab:#'\"-&*é ", max_size=6)
_values = st.recursive(
    _scalars, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text("abc", min_size=1), one)
)


@pytest.mark.requirement("wire-config-kept")
@settings(deadline=None)
@given(
    st.dictionaries(st.text("xyz", min_size=1, max_size=3), _values, max_size=4),
    st.none() | st.dictionaries(st.sampled_from(["provider", "memory_enabled", "z"]), st.text("abc", max_size=3)),
    st.booleans(),
)
def test_other_settings_mean_the_same_afterwards(
    rest: dict[str, Any], memory: dict[str, str] | None, flow: bool
) -> None:
    said = {**rest, "memory": memory}
    text = yaml.safe_dump(said, default_flow_style=flow, allow_unicode=True)
    changed = config_yaml.with_provider(text, NAME)
    assert yaml.safe_load(changed) == {**said, "memory": {**(memory or {}), "provider": NAME}}
    assert yaml.safe_load(config_yaml.with_provider(changed, "no")) == {
        **said,
        "memory": {**(memory or {}), "provider": "no"},
    }


@pytest.mark.requirement("wire-one-injector")
@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        ("{pre_llm_call: [{command: strongroom hook memory-inject}]}", True),
        ("{pre_llm_call: [{command: '/opt/x/bin/python -m strongroom hook   memory-inject --json'}]}", True),
        ("{pre_llm_call: {command: 'strongroom hook memory-inject'}}", True),
        ("{pre_tool_call: [{command: strongroom hook check}]}", False),
        ("{pre_llm_call: [{command: other hook memory-inject}]}", False),
        ("[]", False),
        ("", False),
    ],
)
def test_hook_that_injects_memory_is_seen(hooks: str, expected: bool) -> None:
    assert config_yaml.injects(config_yaml.read(f"hooks: {hooks}\n")) is expected
