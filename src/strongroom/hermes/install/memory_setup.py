"""`hermes memory setup strongroom`: Hermes' own command runs the same steps as `wire`.

Hermes calls `post_setup` for this command. Other screens of Hermes ask for the settings in `config_schema`, and
`save_config` writes the answers into the policy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strongroom.errors import InvalidRequest
from strongroom.hermes import policy as policies
from strongroom.hermes.install import toml_edit
from strongroom.hermes.install.home_files import inside, read_text, replace_text
from strongroom.hermes.policy import Tools


def post_setup(home: Path, config: Mapping[str, Any] | None = None) -> None:  # noqa: ARG001 - it is read from its file
    """Wire a home from within Hermes, and print the steps. Only these steps change config.yaml."""
    from strongroom.hermes.install.own_vaults import OwnVaults, unasked
    from strongroom.hermes.install.wire import wire
    from strongroom.hermes.install.wire_request import Machine, WireRequest

    request = WireRequest(home=str(home), python=sys.executable)
    report = wire(request, OwnVaults(unasked), Machine(os.environ, Path.home()))
    for step in report.steps:
        _tell(f"  {step.number:2}  {step.state:5}  {step.name}: {step.message}")
        if step.hint:
            _tell(f"{'':13}{step.hint}")
    if report.failure is None and report.changed:
        _tell(f"\n  {report.wall}\n\n  Start a new session to use it.")
        for one in report.beyond if report.is_new else ():
            _tell(f"  Not protected by the gate: {one.what}. Closed by: {one.closed_by}")


def _tell(line: str) -> None:
    print(line)  # noqa: T201 - Hermes' set-up is a conversation on its terminal


def config_schema() -> list[Mapping[str, Any]]:
    """The settings that Hermes' screens may ask for, in Hermes' schema format."""
    return [
        {
            "key": "tools",
            "description": "Which memory tools the model gets",
            "default": Tools.NONE.value,
            "choices": [tool.value for tool in Tools],
        },
        {
            "key": "me",
            "description": "Your chat accounts as platform:id, separated by commas (telegram:12345)",
            "default": "",
        },
        {
            "key": "mask_secrets",
            "description": "Mask passwords, keys and tokens before a line is stored",
            "default": "yes",
            "choices": ["yes", "no"],
        },
    ]


def save_config(values: Mapping[str, Any], home: Path) -> None:
    """Save the answers of a settings screen into the policy of a home.

    Raises, and changes nothing, if an answer is unknown or invalid.
    """
    path = inside(home, policies.path_of(home))
    text = read_text(path)
    if text is None:
        raise InvalidRequest(f"the Hermes home {home} is not wired", hint="run `strongroom wire hermes` first")
    new = text
    for key, value in values.items():
        new = _saved(new, key, str(value).strip())
    policies.read(new, str(path))
    if new != text:
        replace_text(path, new)


def _saved(text: str, key: str, value: str) -> str:
    if key == "tools":
        return toml_edit.set_key(text, "", "tools", value)
    if key == "me":
        accounts = tuple(part for one in value.split(",") if (part := one.strip()))
        return toml_edit.set_key(text, "people", "me", accounts)
    if key == "mask_secrets":
        if value.lower() not in ("yes", "no", "true", "false"):
            raise InvalidRequest("mask_secrets must be yes or no")
        return toml_edit.set_key(text, "keep", "mask_secrets", value.lower() in ("yes", "true"))
    names = ", ".join(str(one["key"]) for one in config_schema())
    raise InvalidRequest(f"there is no setting {key[:40]!r}", hint=f"the settings are {names}")
