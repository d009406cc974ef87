"""Set-up of a provider: ask for the fields of its schema, keep secrets in `<home>/.env`, and pass on the other answers.

A `Prompter` asks the questions. This module chooses them, and checks the schema and the answers.

- A provider with `post_setup` does its whole set-up by itself.
- A field with an environment variable is written to `.env`. A secret is written nowhere else; a secret without a
  variable gets the variable `<PROVIDER>_<KEY>`. All other answers go to `save_config`. An empty answer keeps a secret
  that is set.
- `.env` gets only values that all readers read alike (`strongroom.host.plugins.env_file`).
- `.env` is written first, because it can be restored. If `save_config` fails, `.env` gets its earlier content back; its
  mode stays 0600.
- No secret is in a `repr`, a log or an error.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

from strongroom.errors import InvalidRequest, ProviderRefused, ProviderUnavailable
from strongroom.host.plugins import env_file
from strongroom.host.plugins.hermes_stubs import at_home
from strongroom.host.plugins.unavailable_reason import describe_error
from strongroom.host.provider_interface import MemoryProvider

_TRIES = 3
_MOST_FIELDS = 100
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CREDENTIALS = ("_API_KEY", "_TOKEN", "_SECRET", "_KEY")


class Prompter(Protocol):
    """Puts questions to a person."""

    def ask(self, text: str, default: str) -> str:
        """Ask for a line of text. An empty answer gives `default`."""
        ...

    def secret(self, text: str) -> str:
        """Ask for a line that is not echoed while it is typed."""
        ...

    def choose(self, text: str, choices: Sequence[str], default: str) -> str:
        """Ask for one of `choices`. `default` is one of them, or empty."""
        ...


@dataclass(frozen=True, slots=True)
class Field:
    """One question of a provider's schema, checked and complete."""

    key: str
    description: str
    secret: bool = False
    required: bool = False
    default: Any = None
    choices: tuple[Any, ...] = ()
    url: str = ""
    env_var: str = ""
    when: Mapping[str, Any] = field(default_factory=dict)
    default_from: tuple[str, Mapping[Any, Any]] = ("", {})


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a person: values for the provider, and variables for `.env`, which may be secret."""

    values: dict[str, Any]
    variables: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SetupResult:
    """The outcome of set-up."""

    by_provider: bool = False
    """True if the provider did its whole set-up by itself."""
    values: Mapping[str, Any] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    """The names of the variables that were written to `.env`."""
    tightened: bool = False
    """True if other users could read or write `.env` before the set-up, and cannot any more."""
    lost: tuple[str, ...] = ()
    """The keys of the fields that were not stored, because the provider has no `save_config` of its own."""


def set_up(
    provider: Any,
    home: Path,
    prompter: Prompter,
    *,
    config: dict[str, Any] | None = None,
    current: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> SetupResult:
    """Ask the questions of a provider's schema and store the answers. `current` holds earlier answers by key."""
    with at_home(home):
        if callable(getattr(provider, "post_setup", None)):
            whole = {"memory": {}} if config is None else config
            _run(provider, "post_setup", (), lambda: provider.post_setup(str(home), whole))
            return SetupResult(by_provider=True)
        fields = schema_of(provider)
        kept = env_file.read(home) if any(one.env_var for one in fields) else {}
        known = {name for name, value in {**environment, **kept}.items() if value}
        before = {one.key: kept[one.env_var] for one in fields if not one.secret and one.env_var in kept}
        done = keep(provider, home, answers_to(fields, prompter, {**before, **(current or {})}, known))
        if _saves(provider):
            return done
        in_env = {one.key for one in fields if one.env_var in done.variables}
        return replace(done, values={}, lost=tuple(sorted(set(done.values) - in_env)))


# The schema


def schema_of(provider: Any) -> list[Field]:
    """The fields of a provider's schema. Raises ProviderRefused, with all faults, if a field cannot be asked."""
    asked = getattr(provider, "get_config_schema", None)
    said = _run(provider, "get_config_schema", (), asked) if callable(asked) else []
    if not isinstance(said, Sequence) or isinstance(said, str | bytes) or len(said) > _MOST_FIELDS:
        raise ProviderRefused(f"the schema is not a list of at most {_MOST_FIELDS} fields")
    name = str(getattr(provider, "name", "") or type(provider).__name__)
    fields = [_field(one, place, name) for place, one in enumerate(said, 1)]
    keys = {one.key for one in fields}
    owners = {one.env_var: one.key for one in fields}
    wrong = [f"{one.key}: {reason}" for one in fields for reason in _wrong(one, keys)]
    shared = [one for one in fields if one.env_var and owners[one.env_var] != one.key]
    wrong += [f"{one.key}: {one.env_var} is {owners[one.env_var]}'s as well" for one in shared]
    if wrong:
        raise ProviderRefused(f"the schema of {name} cannot be asked: {'; '.join(wrong)}")
    return fields


def _field(said: Any, place: int, provider: str) -> Field:
    if not isinstance(said, Mapping) or not isinstance(said.get("key"), str) or not said["key"].strip():
        raise ProviderRefused(f"field {place} of the schema has no key")
    key, choices, when, other = said["key"], said.get("choices"), said.get("when"), said.get("default_from")
    for name, value, kind in (
        ("choices", choices, list | tuple),
        ("when", when, Mapping),
        ("default_from", other, Mapping),
        ("default_from", other.get("map") if isinstance(other, Mapping) else None, Mapping),
    ):
        if value is not None and not isinstance(value, kind):
            raise ProviderRefused(f"field {key} of the schema has {name} of the wrong type")
    secret = bool(said.get("secret"))
    made = re.sub(r"[^A-Z0-9]+|^(?=[0-9])", "_", f"{provider}_{key}".upper()) if secret else ""
    return Field(
        key=key,
        description=str(said.get("description") or key),
        secret=secret,
        required=bool(said.get("required")),
        default=None if secret else said.get("default"),
        choices=() if secret else tuple(choices or ()),
        url=str(said.get("url") or ""),
        env_var=str(said.get("env_var") or made),
        when=when or {},
        default_from=(str(other.get("field", "")), other.get("map") or {}) if other and not secret else ("", {}),
    )


def _wrong(one: Field, keys: set[str]) -> list[str]:
    """The faults of a field, apart from wrong types."""
    names = [one.default_from[0]] if one.default_from[0] else []
    unknown = [name for name in (*one.when, *names) if name not in keys]
    reasons = [f"it depends on {name}, which is no field" for name in unknown]
    if one.env_var and not _VARIABLE.fullmatch(one.env_var):
        reasons.append("its variable has a name that cannot be one")
    elif env_file.is_never_set(one.env_var):
        reasons.append(f"{one.env_var} is not for a provider to set")
    choices = {_shown(choice) for choice in one.choices}
    if one.choices and _shown(one.default) not in {"", *choices}:
        reasons.append("its default is not among the choices")
    if one.choices and not {_shown(value) for value in one.default_from[1].values()} <= choices:
        reasons.append("a default for another field's value is not among the choices")
    if len(choices) != len(one.choices):
        reasons.append("two of its choices read the same")
    return reasons


# The questions


def answers_to(fields: Sequence[Field], prompter: Prompter, current: Mapping[str, Any], known: set[str]) -> Answers:
    """Ask for each field that applies. `known` are the variables that are set: an empty answer keeps such a secret."""
    answers = Answers({}, {})
    for one in fields:
        asked = one.key in answers.values or (one.secret and one.env_var in answers.variables)
        if not asked and all(_same(answers.values.get(key), value) for key, value in one.when.items()):
            _ask(one, prompter, current, known, answers)
    return answers


def _ask(one: Field, prompter: Prompter, current: Mapping[str, Any], known: set[str], answers: Answers) -> None:
    said = ""
    for _ in range(_TRIES):
        try:
            value = _answer(one, prompter, _default(one, current, answers.values), known, said)
            _check_variable(one, value)
        except InvalidRequest as error:
            said, problem = f" ({error.message})", error
            continue
        if value in (None, ""):
            return
        if not one.secret:
            answers.values[one.key] = value
        if one.env_var:
            answers.variables[one.env_var] = value if isinstance(value, str) else _shown(value)
        return
    raise problem


def _answer(one: Field, prompter: Prompter, default: Any, known: set[str], said: str) -> Any:
    text = one.description + (f" ({one.url})" if one.url else "")
    if one.secret:
        kept = one.env_var in known
        typed = prompter.secret(text + (" (is set; empty keeps it)" if kept else "") + said).strip()
        missing = not typed and not kept
    elif one.choices:
        named = {_shown(choice): choice for choice in one.choices}
        chosen = prompter.choose(text + said, list(named), _shown(default))
        if chosen not in named:
            raise InvalidRequest(f"{one.key} must be one of {', '.join(named)}")
        return named[chosen]
    else:
        typed = prompter.ask(text + said, _shown(default)).strip()
        missing = not typed
    if missing and one.required:
        raise InvalidRequest(f"{one.key} is required")
    return typed if one.secret else _typed(one.key, typed, default)


def _default(one: Field, current: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """The default of a field: its earlier answer, or the value that another answer implies, or that of the schema."""
    other, by_value = one.default_from
    implied = {_shown(value): default for value, default in by_value.items()}
    default = implied.get(_shown(values.get(other)), one.default) if other else one.default
    before = _shown(current.get(one.key))
    if not before or (one.choices and before not in map(_shown, one.choices)):
        return default
    try:
        return _typed(one.key, before, default)
    except InvalidRequest:
        return default


def _typed(key: str, text: str, default: Any) -> Any:
    """The answer in the type of the default, if the default is a number or a boolean. Otherwise the text itself."""
    if text == _shown(default):
        return default
    if isinstance(default, bool):
        meant = {"true": True, "yes": True, "y": True, "1": True, "false": False, "no": False, "n": False, "0": False}
        if text.lower() not in meant:
            raise InvalidRequest(f"{key} must be true or false")
        return meant[text.lower()]
    if isinstance(default, int | float) and text:
        return _number(key, text)
    return text


def _number(key: str, text: str) -> int | float:
    for kind in (int, float):
        with suppress(ValueError):
            number: int | float = kind(text)
            if isfinite(number):
                return number
    raise InvalidRequest(f"{key} must be a number")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _same(answer: Any, wanted: Any) -> bool:
    return answer == wanted or (answer is not None and _shown(answer) == _shown(wanted))


def _check_variable(one: Field, value: Any) -> None:
    """Raise InvalidRequest for a value that some readers of `.env` would read differently."""
    text = _shown(value) if one.env_var else ""
    if unfit := env_file.unfit(text):
        raise InvalidRequest(f"{one.key} {unfit}")
    if not text.isascii() and one.env_var.endswith(_CREDENTIALS):
        raise InvalidRequest(f"{one.key} must be plain ASCII, as it is sent in a header")


# Storing the answers


def keep(provider: Any, home: Path, answers: Answers) -> SetupResult:
    """Write the variables to `.env` and pass the values to the provider. If the provider fails, `.env` is restored."""
    before = env_file.text(home) if answers.variables else None
    tightened = bool(answers.variables) and env_file.is_open(home)
    if answers.variables:
        env_file.write(home, env_file.rewritten(before or "", answers.variables))
    try:
        save = getattr(provider, "save_config", None)
        if answers.values and callable(save):
            secrets = tuple(answers.variables.values())
            _run(provider, "save_config", secrets, lambda: save(dict(answers.values), str(home)))
    except ProviderUnavailable as error:
        raise _taken_back(home, before, bool(answers.variables), error) from None
    return SetupResult(values=answers.values, variables=tuple(answers.variables), tightened=tightened)


def _saves(provider: Any) -> bool:
    """True if a provider has a `save_config` of its own. The method of our or Hermes' interface does nothing."""
    bases = (MemoryProvider, getattr(sys.modules.get("agent.memory_provider"), "MemoryProvider", MemoryProvider))
    own = getattr(getattr(provider, "save_config", None), "__func__", getattr(provider, "save_config", None))
    return callable(own) and all(own is not base.save_config for base in bases)


def _taken_back(home: Path, before: str | None, written: bool, error: ProviderUnavailable) -> ProviderUnavailable:
    """Restore `.env`, and return the error with a hint that says whether anything stays written."""
    left = "nothing was written to .env; what the provider wrote of its own before it failed is not known here"
    try:
        if written:
            env_file.write(home, before)
    except ProviderUnavailable:
        left = "the variables are in .env all the same, for it could not be put back"
    return ProviderUnavailable(error.message, hint=left)


def _run(provider: Any, doing: str, secrets: Sequence[str], call: Callable[[], Any]) -> Any:
    """Run the provider's part of set-up. Its error is reported without the secrets that were typed."""
    try:
        return call()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a provider's fault is said, not passed on
        name = getattr(provider, "name", type(provider).__name__)
        raise ProviderUnavailable(f"{doing} of {name} failed: {describe_error(error, secrets)}") from None
