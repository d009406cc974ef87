"""The page on hosting providers is true where a test can tell: limits, contexts, differences from Hermes, sources."""

from __future__ import annotations

import re

import pytest

from strongroom import host
from strongroom.host import AgentContext, Limits, MemoryProvider, Reach
from strongroom.host.agent_context import DEFAULT_REACH
from tests.docs.pages import DOCS, code, rows, section
from tests.hermes.differences import DIFFERENCES

PAGE = DOCS / "host.md"
HOOKS = {cells[0]: cells for cells in rows(section(PAGE, "## What a provider may expect"))}


@pytest.mark.requirement("project-docs", "hermes-same-calls")
def test_page_lists_every_difference_from_hermes_and_no_other() -> None:
    assert [tuple(cells) for cells in rows(section(PAGE, "## Where the host differs from Hermes 0.19"))] == [
        tuple(row) for row in DIFFERENCES
    ]


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize(
    "hook",
    [
        "initialize",
        "system_prompt_block",
        "on_turn_start",
        "prefetch",
        "handle_tool_call",
        "on_pre_compress",
        "cache_busting_signature",
    ],
)
def test_page_gives_each_hook_that_is_waited_for_its_limit(hook: str) -> None:
    assert re.match(r"([0-9]+) s", HOOKS[f"`{hook}`"][2])[1] == f"{getattr(Limits(), hook):g}"  # type: ignore[index]


@pytest.mark.requirement("project-docs")
def test_page_gives_the_other_limits() -> None:
    limits = Limits()
    assert f"{limits.recalled:,} characters" in HOOKS["`prefetch`"][2]
    assert f"{limits.prompt_block:,} characters" in HOOKS["`system_prompt_block`"][2]
    assert f"{limits.compressed:,} characters" in HOOKS["`on_pre_compress`"][2]
    assert HOOKS["`shutdown`"][2] == f"{limits.drain:g} s to drain, {limits.shutdown:g} s for itself"
    text = " ".join(PAGE.read_text().split())
    assert f"up to {limits.catching_up:g} s (`Limits(catching_up=...)`)" in text
    assert f"within {limits.initialize:g} s; a provider that raises there" in text
    assert f"({limits.asking_threads} for calls that somebody waits for, {limits.keeping_threads} for" in text


@pytest.mark.requirement("project-docs")
def test_page_says_of_every_hook_when_it_is_called_and_what_its_failure_does() -> None:
    named = set(re.findall(r"`(\w+)`", " ".join(HOOKS)))
    outside = {"name", "identity_signature", "get_config_schema", "save_config", "backup_paths"}
    hooks = {name for name in vars(MemoryProvider) if not name.startswith("_")}
    assert named == hooks - outside


@pytest.mark.requirement("project-docs", "context-no-provider-session")
def test_page_gives_every_context_its_reach() -> None:
    table = list(rows(section(PAGE, "## Agents that are not a conversation")))
    said = {name: cells[1].strip("`") for cells in table for name in re.findall(r"`(\w+)`", cells[0])}
    assert said == {str(context): DEFAULT_REACH[context].name for context in AgentContext}
    assert {cells[1].strip("`") for cells in table} == {reach.name for reach in Reach}


@pytest.mark.requirement("project-docs", "project-public")
def test_page_lists_every_public_name_and_no_other() -> None:
    named = [name for cells in rows(section(PAGE, "## The names of `strongroom.host`")) for name in code(cells[0])]
    assert sorted(named) == sorted(host.__all__)
    assert all(hasattr(host, name) for name in named)
