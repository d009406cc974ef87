"""The verdicts of the three hooks. `check` fails closed; `audit` and `inject` never block. No I/O of its own.

Calls to the gate come in as functions. A reason for a model names what is protected, not where it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from strongroom.errors import InvalidRequest, StrongroomError
from strongroom.hermes.hooks.hook_payload import Payload

Verdict = dict[str, str]
ALLOW: Verdict = {}
BLOCKED = "blocked:"
"""Logged before the name of a tool that was not called."""

Reached = Callable[[Payload], str | None]
"""The guarded thing that a call's arguments reach for, or None."""
Standing = Callable[[], None]
"""Raises if the cap is not valid."""
Observe = Callable[[str, str], None]
"""Logs a name and a digest."""
Recall = Callable[[Payload], str]
"""The recall for a message; empty if there is nothing."""


def block_verdict(why: str) -> Verdict:
    """The verdict that a tool must not be called."""
    return {"decision": "block", "reason": f"Strongroom blocked this tool call: {why}."}


def refuse_verdict(error: StrongroomError) -> Verdict:
    """The verdict on a call that could not be checked."""
    return block_verdict(f"it cannot be checked ({error.reason})")


def check(said: Payload, reached: Reached, standing: Standing) -> Verdict:
    """Whether a tool may be called: its arguments reach for nothing guarded, and the runtime's cap is valid."""
    try:
        if not said.tool or said.arguments is None:
            raise InvalidRequest("the runtime named no tool or no arguments")
        what = reached(said)
        if what is not None:
            return block_verdict(f"its arguments would access {what}")
    except StrongroomError as error:
        return refuse_verdict(error)
    try:
        standing()
    except StrongroomError as error:
        return block_verdict(f"the cap of this agent is not valid ({error.reason})")
    return dict(ALLOW)


def audit(said: Payload, observe: Observe) -> Verdict:
    """Log a tool call: its name, and a digest of its arguments. A blocked one is logged as such."""
    if not said.tool:
        raise InvalidRequest("the runtime named no tool")
    was = BLOCKED if said.said("status") == "blocked" else ""
    observe(f"{was}{said.tool}", digest(said.arguments or {}))
    return dict(ALLOW)


def inject(said: Payload, recall: Recall) -> Verdict:
    """The recall for a person's message, for the model to see."""
    text = recall(said)
    return {"context": f"<memory-context>\n{text}\n</memory-context>"} if text else dict(ALLOW)


def digest(arguments: Mapping[str, Any]) -> str:
    """The SHA-256 of arguments as canonical JSON, independent of the order of their keys."""
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
