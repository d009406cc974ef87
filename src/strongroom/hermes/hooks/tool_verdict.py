"""The answers of the three hooks. `check` blocks a call if an error occurs; `audit` and `inject` never block.

There is no I/O here: calls to the gate come in as functions. A reason for a model names the protected thing, but not
its place.
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
"""The prefix in the log for the name of a tool whose call was blocked."""

Reached = Callable[[Payload], str | None]
"""Returns the guarded thing that a call's arguments would access, or None."""
Standing = Callable[[], None]
"""Raises if the home's cap is not valid."""
Observe = Callable[[str, str], None]
"""Logs the name of a tool and a digest of its arguments."""
Recall = Callable[[Payload], str]
"""Recalls lines for a message. Returns an empty text if there are none."""


def block_verdict(why: str) -> Verdict:
    """The answer that a tool must not be called, with the reason."""
    return {"decision": "block", "reason": f"Strongroom blocked this tool call: {why}."}


def refuse_verdict(error: StrongroomError) -> Verdict:
    """The answer for a call that could not be checked, with the error's reason."""
    return block_verdict(f"it cannot be checked ({error.reason})")


def check(said: Payload, reached: Reached, standing: Standing) -> Verdict:
    """Decide whether a tool may be called. Its arguments must not access anything guarded, and the cap must be
    valid.
    """
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
    """Log a tool call: the tool's name, and a digest of the arguments. A blocked call gets the prefix BLOCKED."""
    if not said.tool:
        raise InvalidRequest("the runtime named no tool")
    was = BLOCKED if said.said("status") == "blocked" else ""
    observe(f"{was}{said.tool}", digest(said.arguments or {}))
    return dict(ALLOW)


def inject(said: Payload, recall: Recall) -> Verdict:
    """Recall lines for a person's message. The model sees them as context."""
    text = recall(said)
    return {"context": f"<memory-context>\n{text}\n</memory-context>"} if text else dict(ALLOW)


def digest(arguments: Mapping[str, Any]) -> str:
    """The SHA-256 of arguments as canonical JSON. The order of keys does not matter."""
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
