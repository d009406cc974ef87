"""The three verdicts. `check` fails closed; `audit` and `inject` never stand in the way. No I/O of their own.

What asks the gate comes in as a function. A reason that a model reads names what is protected, not where it is.
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
"""Stands on record before the name of a tool that was not called."""

Reached = Callable[[Payload], str | None]
"""What a call's arguments reach for; None if nothing."""
Standing = Callable[[], None]
"""Raises if the cap does not stand."""
Observe = Callable[[str, str], None]
"""Puts a name and a digest on record."""
Recall = Callable[[Payload], str]
"""What is remembered about what was said; empty if nothing."""


def block_verdict(why: str) -> Verdict:
    """The verdict that a tool must not be called."""
    return {"decision": "block", "reason": f"Strongroom blocked this tool call: {why}."}


def refuse_verdict(error: StrongroomError) -> Verdict:
    """The verdict on a call that could not be checked."""
    return block_verdict(f"it cannot be checked ({error.reason})")


def check(said: Payload, reached: Reached, standing: Standing) -> Verdict:
    """Whether a tool may be called: its arguments keep off what is the owner's, and the runtime's cap stands."""
    try:
        if not said.tool or said.arguments is None:
            raise InvalidRequest("the runtime named no tool or no arguments")
        what = reached(said)
        if what is not None:
            return block_verdict(f"its arguments reach for {what}")
    except StrongroomError as error:
        return refuse_verdict(error)
    try:
        standing()
    except StrongroomError as error:
        return block_verdict(f"the cap of this agent does not stand ({error.reason})")
    return dict(ALLOW)


def audit(said: Payload, observe: Observe) -> Verdict:
    """Put a tool call on record: its name, and a digest of its arguments. One that was blocked is recorded as that."""
    if not said.tool:
        raise InvalidRequest("the runtime named no tool")
    was = BLOCKED if said.said("status") == "blocked" else ""
    observe(f"{was}{said.tool}", digest(said.arguments or {}))
    return dict(ALLOW)


def inject(said: Payload, recall: Recall) -> Verdict:
    """What is remembered about what the person said, for the model to see."""
    text = recall(said)
    return {"context": f"<memory-context>\n{text}\n</memory-context>"} if text else dict(ALLOW)


def digest(arguments: Mapping[str, Any]) -> str:
    """The SHA-256 of arguments as canonical JSON: the same whatever the order of their names."""
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
