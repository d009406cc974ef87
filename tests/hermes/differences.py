"""Where our host calls a provider otherwise than Hermes 0.19 does, and why. Tests compare each row with real runs.

`event`, `hermes` and `host` are worded by `compare.differences`; `why` is for readers. Nothing else may differ.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    event: str
    hermes: str
    host: str
    why: str


_OWN_BOOKKEEPING = (
    "It names something in Hermes' own bookkeeping. The host knows of no tasks, and is not told the ids of tool calls."
)

DIFFERENCES = (
    Row(
        "calls at build",
        "__init__, is_available, get_tool_schemas, get_tool_schemas, initialize, get_tool_schemas",
        "__init__, is_available, get_tool_schemas, initialize",
        "The host gathers the tools once and keeps the list; Hermes asks again at each place that needs it.",
    ),
    Row(
        "prefetch session_id",
        '""',
        "the session's",
        "Hermes leaves empty what the interface provides for. A provider that keeps sessions apart needs it.",
    ),
    Row(
        "on_memory_write metadata old_text",
        '"green tea"; "black tea"',
        '"Drinks green tea."; "Drinks black tea."',
        "The whole entry that is gone, not the part of it that the model quoted: whoever mirrors entries can find its "
        "copy by comparing.",
    ),
    Row("on_memory_write metadata task_id", '"<task_id>"', "not given", _OWN_BOOKKEEPING),
    Row("on_memory_write metadata tool_call_id", '"<tool_call_id>"', "not given", _OWN_BOOKKEEPING),
    Row(
        "thread of __init__, get_tool_schemas, handle_tool_call, initialize, is_available, on_delegation, "
        "on_memory_write, on_pre_compress, on_turn_start, shutdown, system_prompt_block",
        "the agent's",
        "another",
        "A hook that hangs must not hang the agent. One that has an answer is waited for, with a limit; one that is "
        "only told something comes in order, and what is asked next waits for writes and delegations.",
    ),
    Row(
        "thread of on_session_end, on_session_switch",
        "the agent's or another",
        "another",
        "Hermes tells them in order after `/new`, and straight away at a compression and at the end, where they can "
        "overtake the last turn. Here they always come after the turns before them.",
    ),
)
