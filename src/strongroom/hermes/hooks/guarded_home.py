"""A hook's view of one Hermes home: which paths are guarded, whether the cap is valid, and whose memory is used.

A hook's input names a session and, before a turn, a platform and a sender, but no chat. On a platform with several
users the chat is therefore looked up in Hermes' own database. If the database does not have the session, nothing is
recalled, because other people may read the chat.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import platformdirs

from strongroom import model, settings
from strongroom.errors import InvalidRequest, StoreUnavailable
from strongroom.hermes import policy as policies
from strongroom.hermes.hooks import argument_check
from strongroom.hermes.hooks.argument_check import Surroundings
from strongroom.hermes.hooks.guarded_paths import GuardedPath
from strongroom.hermes.hooks.hook_payload import Payload
from strongroom.hermes.policy import OWNER, Policy
from strongroom.hermes.provider import recall
from strongroom.hermes.provider.memory_session import MemorySession
from strongroom.hermes.provider.provider_home import home_of
from strongroom.hermes.provider.speaker import LOCAL, Conversation, Nobody
from strongroom.hermes.scrub import Facts, recalled_text
from strongroom.hermes.scrub.state_db import FILE, facts_of
from strongroom.keys import default_directory
from strongroom.memory import Memory
from strongroom.model import Actor

_SETTINGS = "config.yaml"
"""Hermes' own configuration file, which names its hooks."""
_CONSENT = "shell-hooks-allowlist.json"
"""The file with the hooks that the owner agreed to. Hermes leaves out a hook that is missing there."""
_LOOK = 0.3
"""Seconds to wait for Hermes' database."""
_NO_DEED = re.compile(r"[^A-Za-z0-9._:/@+-]")
_DEED_LIMIT = 64


class Bound:
    """One Hermes home during one run of a hook."""

    def __init__(self, path: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._home = home_of(path)
        self._environ = environ

    def reached(self, said: Payload) -> str | None:
        """The guarded thing that a tool call's arguments would access, or None."""
        home = self._home.path
        around = Surroundings(said.cwd or os.getcwd(), _homes(self._environ), self._environ, str(home / _SETTINGS))
        guarded = guarded_of(self._wired(), home)
        arguments = said.arguments or {}
        return argument_check.find_reach(
            arguments, guarded, around, names=_names, real=os.path.realpath, tool=said.tool
        )

    def standing(self) -> None:
        """Raise if the gate does not accept the home's cap. The cap is not renewed for this check."""
        policy = self._wired()
        token = self._home.parts.caps.narrowed(_owner(policy), policy.namespaces)
        self._home.way.ask(token, Memory.snapshot, hasty=True)

    def observe(self, what: str, digest: str, session: str = "") -> None:
        """Log a tool call in the vault, as an act of the person who speaks in the session."""
        name = _NO_DEED.sub("_", what)[:_DEED_LIMIT]
        self._home.look.ask(self._actor(session), lambda memory: memory.observe(name, digest), hasty=True)

    def recall(self, said: Payload) -> str:
        """Recall lines for a person's message. Lines that were shown in this conversation before are left out."""
        told = self._told(said)
        if told is None:
            raise InvalidRequest(
                "the hook cannot find out who is speaking in this chat",
                hint="use the memory provider instead of this hook",
            )
        session = MemorySession(self._home, said.session)
        session.told = told
        view = session.view()
        if isinstance(view, Nobody):
            raise InvalidRequest(view.reason)
        view.state().see(_shown(said.extra.get("conversation_history")))
        return recall.ask(view, said.said("user_message"), view.policy.recall.lines)[0]

    @property
    def is_faulty(self) -> bool:
        """Whether the policy file has a fault. The last good policy, if there is one, is then in use."""
        self._usable()
        return bool(self._home.broken)

    @property
    def trouble(self) -> str:
        """The reason why nothing can be checked here, in words for a model and its user. Empty if checks are
        possible.
        """
        if policy := self._usable():
            return "" if policy.is_wired else "this home is not wired: run `strongroom wire hermes`"
        return "the policy file has an error: `strongroom wire hermes --check-only` shows it"

    def _usable(self) -> Policy | None:
        try:
            return self._home.policy
        except InvalidRequest:
            return None

    def _wired(self) -> Policy:
        if self.trouble:
            raise InvalidRequest(self.trouble, hint="run `strongroom wire hermes --check-only`")
        return self._home.policy

    def _told(self, said: Payload) -> Conversation | None:
        platform, sender = said.said("platform"), said.said("sender_id")
        facts = self._facts(said.session)
        if platform in LOCAL and not sender:
            return Conversation(platform=platform) if facts is None or facts.platform in LOCAL else None
        if facts is None or facts.platform != platform or facts.user_id not in ("", sender):
            return None
        return Conversation(**{**asdict(facts), "user_id": sender})

    def _actor(self, session: str) -> Actor:
        policy = self._wired()
        facts = self._facts(session)
        speaker = None if facts is None else self._home.whose(Conversation(**asdict(facts)))
        return _owner(policy) if speaker is None or isinstance(speaker, Nobody) else speaker.actor

    def _facts(self, session: str) -> Facts | None:
        with suppress(StoreUnavailable):
            return facts_of(self._home.path / FILE, session, wait=_LOOK)
        return None


def guarded_of(policy: Policy, home: Path) -> list[GuardedPath]:
    """The owner's files and directories that a tool must not access."""
    found = {
        "the vault": policy.vault or settings.find().vault,
        "the vault's keys": str(default_directory("")),
        "the agent's cap": str(policy.cap),
        "turns that wait to be stored": str(policy.state),
        "the policy of its memory": str(policies.path_of(home)),
        "the last valid policy of its memory": str(home / policies.GOOD),
        "Strongroom's configuration": str(settings.config_path()),
        "Strongroom's settings and caps": platformdirs.user_config_dir("strongroom"),
        "Strongroom's files in this home": str(home / "strongroom"),
        "the consent to its hooks": str(home / _CONSENT),
        "Strongroom's plugin": str(home / "plugins" / "strongroom"),
        "Strongroom's data": platformdirs.user_data_dir("strongroom"),
    }
    return [GuardedPath(name, os.path.abspath(os.path.expanduser(path))) for name, path in found.items()]


def _owner(policy: Policy) -> Actor:
    return model.actor_path("hermes", policy.profile, OWNER)


def _homes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The home directories that `~` may mean: the one in the environment, and the one in the user database."""
    found = [environ.get("HOME", "")]
    with suppress(KeyError):
        found.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return tuple(dict.fromkeys(one.rstrip("/") for one in found if one.startswith("/")))


def _names(directory: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(directory))
    except OSError:
        return frozenset()


def _shown(history: object) -> set[model.LineId]:
    """The ids of the lines that the model has already seen, taken from the conversation's messages."""
    found: set[model.LineId] = set()
    for one in history if isinstance(history, list) else ():
        sent = one.get("api_content") if isinstance(one, dict) else None
        content = one.get("content") if isinstance(one, dict) else None
        if isinstance(sent, str):
            found |= recalled_text.sent_ids(content if isinstance(content, str) else "", sent)
    return found
