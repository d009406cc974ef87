"""Set-up asks what a provider's schema says, keeps secrets in a file of mode 0600, and says what went wrong."""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from strongroom.errors import InvalidRequest, ProviderRefused, ProviderUnavailable, StrongroomError
from strongroom.host.plugins import env_file
from strongroom.host.plugins.hermes_stubs import get_hermes_home
from strongroom.host.plugins.provider_setup import SetupResult, schema_of, set_up
from strongroom.host.provider_interface import MemoryProvider

HERMES = Path(__file__).parents[2] / ".venv-hermes" / "bin" / "python"
SECRET = "s3cret-PLANTED with 'both\" quotes"


class Asked:
    """Answers from a table by key words of the question, and remembers what was asked."""

    def __init__(self, **answers: str | list[str]) -> None:
        self.answers = answers
        self.texts: list[str] = []
        self.defaults: dict[str, str] = {}

    def _next(self, text: str, default: str) -> str:
        key = text.split()[0]
        self.texts.append(text)
        self.defaults[key] = default
        answer = self.answers.get(key, default)
        return answer.pop(0) if isinstance(answer, list) else answer

    def ask(self, text: str, default: str) -> str:
        return self._next(text, default)

    def secret(self, text: str) -> str:
        return self._next(text, "")

    def choose(self, text: str, choices: Sequence[str], default: str) -> str:
        assert not isinstance(choices, str)
        return self._next(text, default)

    @property
    def keys(self) -> list[str]:
        return [text.split()[0] for text in self.texts]


class Provider:
    """A provider whose schema is given."""

    name = "notes"

    def __init__(self, *schema: Mapping[str, Any], fails: Exception | None = None) -> None:
        self.schema, self.fails = list(schema), fails
        self.saved: dict[str, Any] | None = None
        self.home = ""
        self.seen: Callable[[], object] = lambda: None

    def get_config_schema(self) -> Any:
        return self.schema

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        self.seen()
        if self.fails:
            raise self.fails
        self.saved, self.home = values, hermes_home


KEY = {"key": "api_key", "secret": True}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def _set_up(home: Path, provider: Any, asked: Asked | None = None, **more: Any) -> SetupResult:
    return set_up(provider, home, asked or Asked(), environment=more.pop("environment", {}), **more)


def _env(home: Path, text: str, mode: int = 0o600) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    (home / ".env").write_bytes(text.encode())
    (home / ".env").chmod(mode)
    return home / ".env"


# What is refused


@pytest.mark.parametrize(
    "schema",
    [
        {"description": "no key"},
        {"key": " "},
        {"key": 1},
        {"key": "a", "choices": "abc"},
        {"key": "a", "when": ["mode"]},
        {"key": "a", "when": {"gone": 1}},
        {"key": "a", "default_from": "mode"},
        {"key": "a", "default_from": {"field": "gone", "map": {}}},
        {"key": "a", "default_from": {"field": "a", "map": []}},
        {"key": "a", "choices": ["x", "y"], "default": "z"},
        {"key": "a", "choices": ["x"], "default_from": {"field": "a", "map": {"x": "z"}}},
        {"key": "a", "choices": [1, "1"]},
        {"key": "a", "secret": True, "env_var": "NOT A NAME"},
        {"key": "a", "secret": True, "env_var": "LD_PRELOAD"},
        {"key": "a", "env_var": "PATH"},
        {"key": "a", "env_var": "PYTHONPATH"},
        {"key": "a", "env_var": "HERMES_HOME"},
    ],
)
def test_schema_that_cannot_be_asked_is_refused_before_any_question(home: Path, schema: dict[str, Any]) -> None:
    asked = Asked()
    with pytest.raises(ProviderRefused):
        _set_up(home, Provider(schema), asked)
    assert asked.texts == []
    assert not home.exists()


@pytest.mark.parametrize("schema", [None, "fields", {"key": "a"}, [{"key": str(n)} for n in range(101)]])
def test_schema_that_is_no_list_of_fields_is_refused(home: Path, schema: Any) -> None:
    provider = Provider()
    provider.schema = schema
    with pytest.raises(ProviderRefused):
        _set_up(home, provider)


def test_two_secrets_in_one_variable_are_refused(home: Path) -> None:
    two = [{"key": "a", "secret": True, "env_var": "KEY"}, {"key": "b", "secret": True, "env_var": "KEY"}]
    with pytest.raises(ProviderRefused):
        _set_up(home, Provider(*two))


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "NODE_API_KEY", "PYTHON_SERVICE_KEY", "HOME_ASSISTANT_TOKEN"])
def test_variables_that_only_begin_like_forbidden_ones_are_allowed(home: Path, name: str) -> None:
    (field,) = schema_of(Provider({"key": "a", "secret": True, "env_var": name}))
    assert field.env_var == name


@pytest.mark.parametrize(
    ("field", "answer"),
    [
        ({"key": "a", "choices": ["x", "y"]}, "z"),
        ({"key": "a", "required": True}, ""),
        ({"key": "a", "required": True, "secret": True}, ""),
        ({"key": "a", "default": True}, "perhaps"),
        ({"key": "a", "default": 5}, "five"),
        ({"key": "a", "default": 5}, "nan"),
        ({"key": "a", "secret": True}, "two\nlines"),
        ({"key": "a", "secret": True}, "a\x1b[2Jb"),
        ({"key": "a", "secret": True}, "${HOME}"),
        ({"key": "a", "secret": True}, "'begins with a quote and ends in \\"),
        ({"key": "a", "secret": True}, "has a # and ends in \\"),
        ({"key": "a", "secret": True, "env_var": "NOTES_API_KEY"}, "schlüssel"),
        ({"key": "a", "env_var": "NOTES_URL"}, "x${PATH:-y}"),
    ],
)
def test_answer_that_is_wrong_three_times_ends_set_up_with_nothing_written(
    home: Path, field: dict[str, Any], answer: str
) -> None:
    provider, asked = Provider(field), Asked(a=answer)
    with pytest.raises(InvalidRequest) as caught:
        _set_up(home, provider, asked)
    assert len(asked.texts) == 3
    assert provider.saved is None
    assert not home.exists()
    assert answer == "" or field.get("choices") or answer not in str(caught.value)


def test_wrong_answer_is_asked_again_with_the_reason(home: Path) -> None:
    asked = Asked(port=["many", "81"])
    outcome = _set_up(home, Provider({"key": "port", "default": 80}), asked)
    assert outcome.values == {"port": 81}
    assert "number" in asked.texts[1]


# What is asked


def test_field_is_asked_only_when_its_condition_holds(home: Path) -> None:
    schema: list[dict[str, Any]] = [
        {"key": "mode", "choices": ["cloud", "local"], "default": "cloud"},
        {"key": "url", "default": "https://cloud", "when": {"mode": "cloud"}},
        {"key": "url", "default": "http://local", "when": {"mode": "local"}},
        {"key": "depth", "when": {"mode": "local", "url": "http://other"}},
    ]
    asked = Asked(mode="local")
    outcome = _set_up(home, Provider(*schema), asked)
    assert asked.keys == ["mode", "url"]
    assert outcome.values == {"mode": "local", "url": "http://local"}


def test_condition_on_yes_or_no_holds_for_either_way_to_write_it(home: Path) -> None:
    schema: list[dict[str, Any]] = [
        {"key": "on", "default": False},
        {"key": "size", "default": 3, "when": {"on": "true"}},
    ]
    assert _set_up(home, Provider(*schema), Asked(on="yes")).values == {"on": True, "size": 3}


def test_default_follows_from_another_answer(home: Path) -> None:
    follows = {"field": "maker", "map": {"a": "a-small", "b": "b-small"}}
    schema: list[dict[str, Any]] = [
        {"key": "maker", "default": "a"},
        {"key": "model", "default": "other", "default_from": follows},
    ]
    assert _set_up(home, Provider(*schema), Asked(maker="b")).values["model"] == "b-small"
    assert _set_up(home, Provider(*schema), Asked(maker="c")).values["model"] == "other"


def test_value_set_before_is_the_default(home: Path) -> None:
    _env(home, "NOTES_URL=http://kept\nNOTES_MOST=9\nNOTES_LEAST=few\n")
    schema: list[dict[str, Any]] = [
        {"key": "port", "default": 80},
        {"key": "pace", "choices": ["slow", "fast"], "default": "slow"},
        {"key": "url", "env_var": "NOTES_URL", "default": "http://new"},
        {"key": "most", "env_var": "NOTES_MOST", "default": 5},
        {"key": "least", "env_var": "NOTES_LEAST", "default": 1},
    ]
    asked = Asked()
    outcome = _set_up(home, Provider(*schema), asked, current={"port": 81, "pace": "gone"})
    assert outcome.values == {"port": 81, "pace": "slow", "url": "http://kept", "most": 9, "least": 1}
    assert asked.defaults == {"port": "81", "pace": "slow", "url": "http://kept", "most": "9", "least": "1"}


@pytest.mark.parametrize(
    ("default", "answer", "value"),
    [
        (True, "no", False),
        (False, "1", True),
        (5, "6", 6),
        (5, "0.5", 0.5),
        (0.5, "2", 2),
        ("5", "6", "6"),
        (5, "5", 5),
    ],
)
def test_answer_has_the_type_of_the_default(home: Path, default: Any, answer: str, value: Any) -> None:
    got = _set_up(home, Provider({"key": "a", "default": default}), Asked(a=answer)).values["a"]
    assert (got, type(got)) == (value, type(value))


def test_choices_keep_their_type(home: Path) -> None:
    field = {"key": "a", "choices": [1, 2, "x"], "default": "1"}
    assert _set_up(home, Provider(field), Asked(a="2")).values == {"a": 2}
    assert _set_up(home, Provider(field)).values == {"a": 1}


def test_empty_answer_is_left_out(home: Path) -> None:
    provider = Provider({"key": "a"}, {"key": "b", "default": "x"})
    assert _set_up(home, provider).values == {"b": "x"}
    assert provider.saved == {"b": "x"}


def test_place_to_get_a_key_is_said(home: Path) -> None:
    asked = Asked(Key="k")
    _set_up(home, Provider({**KEY, "description": "Key of notes", "url": "https://notes.example"}), asked)
    assert asked.texts == ["Key of notes (https://notes.example)"]


def test_provider_without_a_schema_needs_nothing(home: Path) -> None:
    class Bare:
        name = "bare"

    assert _set_up(home, Bare()) == SetupResult()
    assert not home.exists()


def test_provider_that_sets_itself_up_is_asked_nothing(home: Path) -> None:
    class Own(Provider):
        def post_setup(self, hermes_home: str, config: dict[str, Any]) -> None:
            config["memory"]["provider"] = hermes_home
            self.home = str(get_hermes_home())

    config: dict[str, Any] = {"memory": {}}
    provider, asked = Own(KEY), Asked()
    assert _set_up(home, provider, asked, config=config).by_provider
    assert config == {"memory": {"provider": str(home)}}
    assert (provider.home, asked.texts) == (str(home), [])


class Silent(MemoryProvider):
    """Inherits a `save_config` that does nothing."""

    name = "silent"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        pass

    def get_tool_schemas(self) -> list[Any]:
        return []

    def get_config_schema(self) -> list[Mapping[str, Any]]:
        return [
            {"key": "colour", "default": "blue"},
            {"key": "url", "default": "here", "env_var": "SILENT_URL"},
            {"key": "token", "secret": True, "env_var": "SILENT_TOKEN"},
        ]


@pytest.mark.parametrize("hermes", [True, False])
def test_value_that_a_provider_without_save_config_does_not_keep_is_named(
    monkeypatch: pytest.MonkeyPatch, home: Path, hermes: bool
) -> None:
    base: Any = type("MemoryProvider", (), {"save_config": lambda *_: None})
    kind = type("Silent", (base,), {"get_config_schema": Silent.get_config_schema}) if hermes else Silent
    theirs = ModuleType("agent.memory_provider")
    theirs.MemoryProvider = base  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "agent.memory_provider", theirs)
    done = _set_up(home, kind(), Asked(token="x"))
    assert (dict(done.values), done.lost) == ({}, ("colour",))
    assert set(done.variables) == {"SILENT_URL", "SILENT_TOKEN"}


def test_provider_that_saves_loses_nothing(home: Path) -> None:
    done = _set_up(home, Provider({"key": "colour", "default": "blue"}))
    assert (dict(done.values), done.lost) == ({"colour": "blue"}, ())


def test_set_up_of_its_own_that_fails_is_named(home: Path) -> None:
    class Own(Provider):
        def post_setup(self, hermes_home: str, config: dict[str, Any]) -> None:
            raise SystemExit("no terminal")

    with pytest.raises(ProviderUnavailable) as caught:
        _set_up(home, Own())
    assert "post_setup of notes failed: SystemExit: no terminal" in str(caught.value)


# Secrets


@pytest.mark.requirement("setup-secrets-0600")
def test_secrets_go_to_a_file_for_the_owner_alone_and_nowhere_else(home: Path) -> None:
    old = os.umask(0)
    try:
        provider = Provider(KEY, {"key": "url", "default": "http://x"})
        outcome = _set_up(home, provider, Asked(api_key=SECRET))
    finally:
        os.umask(old)
    assert (home / ".env").stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    assert env_file.read(home) == {"NOTES_API_KEY": SECRET}
    assert provider.saved == {"url": "http://x"}
    assert provider.home == str(home)
    assert outcome.variables == ("NOTES_API_KEY",)
    assert SECRET not in repr(outcome)
    assert [path.name for path in home.iterdir()] == [".env"]


@pytest.mark.parametrize(
    ("provider", "key", "variable"), [("notes", "api-key", "NOTES_API_KEY"), ("3d notes", "k", "_3D_NOTES_K")]
)
def test_secret_without_a_variable_gets_one(home: Path, provider: str, key: str, variable: str) -> None:
    given = Provider({"key": key, "secret": True})
    given.name = provider
    _set_up(home, given, Asked(**{key: "k"}))
    assert env_file.read(home) == {variable: "k"}


def test_setting_with_a_variable_goes_both_ways(home: Path) -> None:
    provider = Provider({"key": "port", "default": 80, "env_var": "NOTES_PORT"})
    _set_up(home, provider)
    assert env_file.read(home) == {"NOTES_PORT": "80"}
    assert provider.saved == {"port": 80}


@pytest.mark.parametrize("where", ["file", "environment"])
def test_empty_answer_keeps_a_secret_that_is_set(home: Path, where: str) -> None:
    if where == "file":
        _env(home, "NOTES_API_KEY='old one'\n")
    environment = {"NOTES_API_KEY": "old one"} if where == "environment" else {}
    asked = Asked()
    outcome = _set_up(home, Provider({**KEY, "required": True}), asked, environment=environment)
    assert outcome.variables == ()
    assert "old one" not in "".join(asked.texts)
    assert env_file.read(home) == ({"NOTES_API_KEY": "old one"} if where == "file" else {})


@pytest.mark.requirement("setup-secrets-0600")
def test_file_that_others_could_read_is_closed(home: Path) -> None:
    path = _env(home, "OTHER=1\n", mode=0o644)
    assert _set_up(home, Provider(KEY), Asked(api_key="k")).tightened
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == "OTHER=1\nNOTES_API_KEY=k\n"
    assert not _set_up(home, Provider(KEY), Asked(api_key="l")).tightened


@pytest.mark.requirement("setup-secrets-0600")
def test_file_that_is_a_link_is_refused(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    (tmp_path / "elsewhere").write_text("A=1\n")
    (home / ".env").symlink_to(tmp_path / "elsewhere")
    provider = Provider(KEY, {"key": "url", "default": "x"})
    with pytest.raises(ProviderUnavailable):
        _set_up(home, provider, Asked(api_key="k"))
    assert (tmp_path / "elsewhere").read_text() == "A=1\n"
    assert provider.saved is None


def test_file_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    path = _env(home, "A=1\n")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(ProviderUnavailable):
        _set_up(home, Provider(KEY), Asked(api_key="k"))
    assert path.read_text() == "A=1\n"


def test_link_is_no_matter_where_nothing_goes_to_the_file(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    (home / ".env").symlink_to(tmp_path / "elsewhere")
    assert _set_up(home, Provider({"key": "url", "default": "x"})).values == {"url": "x"}


@pytest.mark.parametrize("kind", ["directory", "pipe", "bytes", "large"])
def test_file_that_cannot_be_kept_as_it_is_is_refused(home: Path, kind: str) -> None:
    home.mkdir()
    path = home / ".env"
    makes: dict[str, Callable[[], object]] = {
        "directory": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "bytes": lambda: path.write_bytes(b"A=\xff\n"),
        "large": lambda: path.write_bytes(b"#" * ((1 << 20) + 1)),
    }
    makes[kind]()
    with pytest.raises(ProviderUnavailable):
        _set_up(home, Provider(KEY), Asked(api_key="k"))


@pytest.mark.requirement("setup-secrets-0600")
@pytest.mark.parametrize("there", [True, False])
def test_provider_that_fails_to_save_leaves_the_secrets_as_they_were(home: Path, there: bool) -> None:
    before = "# mine\nNOTES_API_KEY=old\n"
    if there:
        _env(home, before)
    provider = Provider(KEY, {"key": "url", "default": "x"}, fails=OSError(f"disk full near {SECRET} {SECRET!r}"))
    seen: list[dict[str, str]] = []
    provider.seen = lambda: seen.append(env_file.read(home))
    with pytest.raises(ProviderUnavailable) as caught:
        _set_up(home, provider, Asked(api_key=SECRET))
    assert seen == [{"NOTES_API_KEY": SECRET}]
    assert (home / ".env").exists() == there
    assert not there or (home / ".env").read_text() == before
    assert "save_config of notes failed: OSError: disk full near <redacted>" in str(caught.value)
    assert "PLANTED" not in str(caught.value) + repr(caught.value.__cause__) + repr(caught.value.__context__)


def test_file_that_could_not_be_put_back_is_said(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    def broken(path: Path, data: bytes, *, new: bool) -> None:
        raise OSError(28, "No space left on device")

    _env(home, "A=1\n")
    provider = Provider(KEY, {"key": "url", "default": "x"}, fails=ValueError("no"))
    provider.seen = lambda: monkeypatch.setattr(env_file, "write_file", broken)
    with pytest.raises(ProviderUnavailable) as caught:
        _set_up(home, provider, Asked(api_key="k"))
    assert "could not be put back" in caught.value.hint


def test_full_disk_saves_neither_secrets_nor_settings(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    def broken(path: Path, data: bytes, *, new: bool) -> None:
        raise OSError(28, "No space left on device")

    _env(home, "A=1\n")
    monkeypatch.setattr(env_file, "write_file", broken)
    provider = Provider(KEY, {"key": "url", "default": "x"})
    with pytest.raises(ProviderUnavailable):
        _set_up(home, provider, Asked(api_key="k"))
    assert provider.saved is None
    assert env_file.read(home) == {"A": "1"}


@pytest.mark.requirement("setup-secrets-0600")
def test_no_secret_is_logged_or_shown(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    tries: list[tuple[Provider, str]] = [
        (Provider(KEY), "PLANTED\nline"),
        (Provider(KEY, {"key": "u", "default": "x"}, fails=ValueError("PLANTED-1")), "PLANTED-1"),
        (Provider({**KEY, "env_var": "NOTES_KEY"}), "PLANTED-ü"),
    ]
    for provider, answer in tries:
        with pytest.raises(StrongroomError) as caught:
            _set_up(home, provider, Asked(api_key=answer))
        assert "PLANTED" not in f"{caught.value!r} {caught.value} {caught.value.hint} {caught.value.__cause__!r}"
    assert "PLANTED" not in caplog.text


# The file


def test_lines_comments_and_order_stay() -> None:
    before = (
        "# my keys\n"
        "\n"
        "FIRST=1\n"
        "export NOTES_KEY=old # from the web page\n"
        "not a setting\n"
        'LONG="two\nNOTES_KEY=inside\nlines"\n'
        "# NOTES_KEY=commented\n"
        "NOTES_KEY = 'again'\n"
        "LAST='x'"
    )
    assert env_file.rewritten(before, {"NOTES_KEY": "new", "MORE": "a b"}) == (
        "# my keys\n"
        "\n"
        "FIRST=1\n"
        "# from the web page\n"
        "export NOTES_KEY=new\n"
        "not a setting\n"
        'LONG="two\nNOTES_KEY=inside\nlines"\n'
        "# NOTES_KEY=commented\n"
        "LAST='x'\n"
        "MORE='a b'\n"
    )


def test_line_ends_stay_as_they_are() -> None:
    assert env_file.rewritten("A=1\r\nB=2\r\n", {"A": "3", "C": "4"}) == "A=3\r\nB=2\r\nC=4\r\n"


def test_line_that_is_no_setting_is_kept_and_not_read(home: Path) -> None:
    _env(home, 'A=\'open\nB="x" y\n=z\nC\n\ufeffD=1\n')
    assert set(env_file.read(home)) == {"\ufeffD"}
    assert env_file.rewritten("A='open\n", {"A": "k"}) == "A='open\nA=k\n"


VALUES = [
    "plain",
    "sk-abc/DEF+123==",
    "with space",
    " both ends ",
    "with # hash",
    "#begins",
    "it's",
    'say "x"',
    "'single'",
    '"double"',
    "back\\slash",
    "back\\nslash'",
    "ends\\",
    "ends'\\",
    "C:\\My Documents\\",
    "\\'\"",
    "$HOME $(ls) `ls`",
    "a=b=c",
    "export X",
    "ünï 漢字",
    "{}[]*?!~<>|&;",
    "%s%d",
]
READERS = """
import json, os, sys
from pathlib import Path
home = Path(sys.argv[1])
from dotenv import dotenv_values
from hermes_cli.config import load_env
print("\\n" + json.dumps([dict(dotenv_values(home / ".env")), load_env()]))
"""


@pytest.mark.requirement("setup-secrets-0600")
def test_readers_of_the_file_get_the_same_values_back(home: Path) -> None:
    assert HERMES.exists(), f"{HERMES} is missing: make an environment there with hermes-agent==0.19.0 and this package"
    drawn = ["".join(random.Random(seed).choices("ab'\"\\ #$={}é", k=1 + seed % 9)) for seed in range(2_000)]
    variables = {f"V{number}": value for number, value in enumerate([*VALUES, *drawn]) if not env_file.unfit(value)}
    _env(home, env_file.rewritten("# first\nexport V3=old # kept\nV5='old'\n", variables))
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "HERMES_HOME": str(home)}
    arguments = [str(HERMES), "-c", READERS, str(home)]
    ran = subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=60)
    assert ran.returncode == 0, ran.stderr[-2000:]
    usual, hermes = json.loads(ran.stdout.strip().splitlines()[-1])
    assert set(VALUES) <= set(variables.values())
    assert env_file.read(home) == variables
    assert usual == variables
    assert hermes == variables
