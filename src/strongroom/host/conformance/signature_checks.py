"""Checks of the settings signature, by which a gateway decides whether a cached agent is out of date."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from strongroom.host.conformance.check_stage import BOB, LOCKER, CheckStage
from strongroom.host.conformance.scripted_agent import TestedAgent, wait_until
from strongroom.host.conformance.side_effects import FILES, Watch
from strongroom.host.conformance.verdict import Check, Failed, NotApplicable

_NONE = "it has no signature"
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_SETTLING = 1.0
_HOOKS = ("cache_busting_signature", "identity_signature")
# The two have nothing in common, not even their length, so that any part or hash of them differs too.
_FIRST = "kq7conformancefirst3b9e"
_REFRESHED = "zw31-refreshed-for-the-kit-71c0"


def stable(stage: CheckStage) -> str:
    """Compare the signatures of two calls and of two objects, and check the form of the returned values."""
    agent, other = stage.started(), stage.started(BOB)
    first = _signature(agent)
    if first != _signature(agent):
        raise Failed("two calls return different signatures")
    agent.turn(LOCKER.said)
    agent.write("add", LOCKER.said)
    if first != _signature(agent):
        raise Failed("it changes with what is said, though no setting did")
    if first != _signature(other):
        raise Failed("two objects return different signatures under the same settings")
    prefix = f"{agent.provider.name}."
    if not all(isinstance(key, str) and key.startswith(prefix) for key in first):
        raise Failed("a key does not begin with the provider's name and a point")
    if any(isinstance(value, Mapping) for value in first.values()):
        raise Failed("it is not flat: a value is a mapping")
    try:
        json.dumps(first, allow_nan=False)
    except (TypeError, ValueError):
        raise Failed("a value cannot be written as JSON") from None
    return f"the same for two calls and two objects, flat and JSON: {len(first)} keys"


def secret(stage: CheckStage) -> str:
    """Compare signatures with known secrets in the environment, then with other secrets in their place."""
    _set_up(stage, stage.agent(), _FIRST)
    agent = stage.started()
    before = _signature(agent)
    given = {_FIRST, _REFRESHED, *(stage.subject.environment[name] for name in _given_secrets(stage))}
    _set_up(stage, agent, _REFRESHED)
    after, anew = _signature(agent), _signature(stage.started())
    said = json.dumps([before, after, anew], default=repr)
    if any(value in said for value in given if len(value) >= 4):
        raise Failed("it holds a secret")
    if before != after or before != anew:
        raise Failed("it changes when a secret is refreshed")
    return "it holds no secret and does not change with one"


def quiet(stage: CheckStage) -> str:
    """Watch which files a later call for the signature opens."""
    agent = stage.started()
    _signature(agent)
    watch = Watch(FILES)

    def opened() -> int:
        watch.seen.clear()
        with watch.looking():
            _signature(agent)
        return len(watch.seen)

    # A file that changed a moment ago may be read twice: its status could be that of two changes.
    wait_until(lambda: not opened(), _SETTLING)
    if count := opened():
        raise Failed(f"a later call opened {count} files although nothing had changed")
    return "a later call opened no file"


def _signature(agent: TestedAgent) -> dict[str, Any]:
    """The provider's signature, from the first of the two hooks that gives one."""
    for hook in _HOOKS:
        found = agent.call(hook)
        if found is not None and not isinstance(found, Mapping):
            raise Failed(f"{hook} returned {type(found).__name__}")
        if found:
            return dict(found)
    raise NotApplicable(_NONE)


def _set_up(stage: CheckStage, agent: TestedAgent, value: str) -> None:
    """Set a known value for every secret that the provider asks for, or is likely to look for."""
    name = re.sub(r"\W", "_", agent.provider.name).upper()
    fields = agent.call("get_config_schema") or []
    asked = [str(one["env_var"]) for one in fields if isinstance(one, Mapping) and one.get("env_var")]
    secrets = {*asked, f"{name}_API_KEY", f"{name}_TOKEN", *_given_secrets(stage)}
    secrets = {one for one in secrets if one in _given_secrets(stage) or _SECRET_NAME.search(one)}
    os.environ.update(dict.fromkeys(secrets, value))
    (stage.home / ".env").write_text("".join(f"{one}={value}\n" for one in sorted(secrets)))


def _given_secrets(stage: CheckStage) -> list[str]:
    return [name for name in stage.subject.environment if _SECRET_NAME.search(name)]


CHECKS = (
    Check(
        "signature-stable",
        "The signature is the same for two calls and two objects",
        "Compares signatures of two calls, before and after a turn, and of two users' objects; looks at their form.",
        "Each change ends a cached agent and builds another: one that changes by itself does so at every message.",
        stable,
    ),
    Check(
        "signature-secret",
        "The signature holds no secret and does not change with one",
        "Gives secrets known values, looks for them in the signature, and replaces them.",
        "Signatures are compared and logged. A refreshed token is no new configuration.",
        secret,
    ),
    Check(
        "signature-quiet",
        "The signature opens no file while nothing changes",
        "Counts the files that are opened in a later call. For a second, what was just made may be read again.",
        "It is asked for at each message. Looking at a file's status is enough to know whether it changed.",
        quiet,
    ),
)
