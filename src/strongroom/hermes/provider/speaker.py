"""Finds the speaker of a conversation, from the facts that a runtime gives: the actor whose memory is opened. Pure.

- A person in a direct chat is an actor, by platform and id. Accounts that the owner joined are one actor.
- A chat or thread that several people read is an actor of its own. Nobody's private memory is opened there, even if the
  runtime has a session for each person, because all of them read the replies.
- If a single-user runtime (the command line, an editor) names no user, the local owner is the speaker.
- A request to an API server belongs to its session key. Without a key there is no memory, except if the owner named a
  shared memory.
- Scheduled tasks and messages of other agents have no memory.

A session's id never decides: runtimes derive it from the first words, and two people may begin alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strongroom import model
from strongroom.errors import InvalidRequest
from strongroom.hermes.policy import OWNER, Policy
from strongroom.hermes.provider.role_names import is_role
from strongroom.hermes.provider.user_accounts import UNRECORDED, Accounts, names_of
from strongroom.host.agent_context import AgentContext
from strongroom.host.user_identity import Identity
from strongroom.model import Actor

LOCAL = frozenset(("", "cli", "tui", "acp", "local", "desktop"))
"""Platforms of single-user runtimes."""
_API_SERVER = "api_server"
_DIRECT = frozenset(("dm", "direct", "im", "private"))
_OPEN = frozenset(("ntfy",))
"""Platforms on which anyone who knows a chat's name can read the chat. Hermes calls these chats direct."""
_DIRECT_KEY = re.compile(r"[^:]*:[^:]*:[^:]*:dm:")
"""Matches a gateway's key of a direct chat: agent, profile, platform, and then the type of the chat."""
_GATEWAY_KEY = re.compile(r"agent:[^:]*:[^:]*:[^:]")
"""Matches a session key in the form that a gateway gives to chats.

Where the client chooses the key (a terminal, an editor, the API server), only a key of this form counts as a chat's.
"""
_RECALLS_ONLY = frozenset((AgentContext.SUBAGENT, AgentContext.BACKGROUND))
ASSISTANT = "assistant"
"""The author of the model's lines."""
FILES = {"memory": "hermes memory", "user": "hermes user", "soul": "hermes soul"}
"""The author names of notes, by the memory file that holds the notes."""
_TAKEN = (ASSISTANT, *FILES.values())
"""Author names that do not belong to a person."""
_RESERVED = frozenset(("as", "for", OWNER))
"""Path segments that our actors use after the profile. A platform with such a name gets a prefix."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The facts that a runtime tells about a conversation. An unknown fact is empty."""

    platform: str = ""
    context: str = AgentContext.PRIMARY
    identity: str = ""
    user_id: str = ""
    user_id_alt: str = ""
    user_name: str = ""
    chat_id: str = ""
    chat_type: str = ""
    thread_id: str = ""
    key: str = ""

    @classmethod
    def told(cls, kwargs: Mapping[str, Any]) -> Conversation:
        """Read the keyword arguments of `initialize`. Ids may be numbers."""
        names = {"context": "agent_context", "identity": "agent_identity", "key": "gateway_session_key"}
        found = {name: _text(kwargs.get(names.get(name, name))) for name in cls.__dataclass_fields__}
        return cls(**{**found, "context": found["context"] or AgentContext.PRIMARY})


@dataclass(frozen=True, slots=True)
class Speaker:
    """The actor whose memory a conversation opens."""

    actor: Actor
    platform: str
    chat: str
    """The chat as `platform:chat`, as the owner's policy names chats. Empty if there is none."""
    author: str
    """The author of the person's text. A name in the text itself takes precedence."""
    name: str = ""
    """The name that the runtime puts before the person's texts if several people share a session."""
    is_shared: bool = False
    keeps: bool = True
    """Whether turns of this conversation are stored."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """The result for a conversation that may not use any memory, with the reason."""

    reason: str


def who(policy: Policy, said: Conversation, accounts: Accounts = UNRECORDED) -> Speaker | Nobody:
    """Find the actor whose memory a conversation opens. `accounts` records people who have two kinds of ids."""
    if said.context != AgentContext.PRIMARY and said.context not in _RECALLS_ONLY:
        return Nobody(f"an agent for {said.context[:32]} has no memory of its own")
    place = _place(policy, said, accounts)
    if isinstance(place, Nobody):
        return place
    is_shared = _is_shared(said)
    return Speaker(
        actor=model.actor_path(*place),
        platform=said.platform,
        chat=f"{said.platform}:{said.chat_id}" if said.chat_id else "",
        author=_author(said, is_shared=is_shared),
        name=said.user_name if is_shared and _is_of_several(said) else "",
        is_shared=is_shared,
        keeps=said.context == AgentContext.PRIMARY,
    )


def _place(policy: Policy, said: Conversation, accounts: Accounts) -> tuple[str, ...] | Nobody:
    root = _root(policy, said)
    if _is_shared(said):
        if not (said.chat_id or said.key):
            return Nobody(f"{said.platform[:32] or 'the runtime'} does not say which chat it is")
        return (*root, _platform(said), "chat", said.chat_id or said.key, *filter(None, (said.thread_id,)))
    if said.platform in policy.unproven:
        return Nobody(f"{said.platform[:32]} does not prove who is speaking (people.unproven)")
    person = accounts.person(said.platform, said.user_id, said.user_id_alt)
    if name := _alias(policy.identity, said, accounts.named(said.platform, person, said.user_id_alt)):
        return (*root, OWNER) if name == OWNER else (*root, "as", name)
    if person:
        return (*root, _platform(said), *person)
    if said.platform in LOCAL and not said.key:
        return (*root, OWNER)
    if said.key:
        return (*root, _platform(said), "key", said.key)
    if said.platform == _API_SERVER and policy.shared_api:
        return (*root, _platform(said), "shared", policy.shared_api)
    return Nobody(f"{said.platform[:32] or 'the runtime'} says neither who is speaking nor in which chat")


def _root(policy: Policy, said: Conversation) -> tuple[str, ...]:
    """The path of the home's profile. An agent with another name in the same home gets a part of its own below it."""
    root = ("hermes", policy.profile)
    return root if said.identity in ("", policy.profile) else (*root, "for", said.identity)


def _platform(said: Conversation) -> str:
    return f"={said.platform}" if said.platform in _RESERVED else said.platform or "local"


def _alias(identity: Identity, said: Conversation, others: Iterable[str]) -> str:
    """The owner's alias for an account. It is found by the account's ids, by recorded ids, or by the session key."""
    known = (*names_of(said.user_id, said.user_id_alt), *others)
    accounts = (f"{said.platform}:{one}" for one in known or filter(None, (said.key,)))
    return next((name for one in accounts if (name := identity.user_peer_aliases.get(one))), "")


def _is_shared(said: Conversation) -> bool:
    """Whether other people may read the replies. A chat that is not known to be direct counts as shared."""
    # Hermes calls Slack's group conversations direct too; only those of two people have an id that begins with D.
    if said.platform in _OPEN or (said.platform == "slack" and said.chat_id and not said.chat_id.startswith("D")):
        return True
    if said.chat_type:
        return said.chat_type.lower() not in _DIRECT
    if _DIRECT_KEY.match(said.key):
        return False
    is_chosen = said.platform in LOCAL or said.platform == _API_SERVER
    return bool(said.chat_id) or bool(_GATEWAY_KEY.match(said.key) if is_chosen else said.key)


def _is_of_several(said: Conversation) -> bool:
    """Whether several people share a session. The session's key then does not end with one person's id."""
    return bool(said.key) and not said.key.endswith(tuple(f":{one}" for one in (said.user_id, said.user_id_alt) if one))


def _author(said: Conversation, *, is_shared: bool) -> str:
    return name_of(said.user_name) or ("someone" if is_shared else "user")


def name_of(said: str) -> str:
    """A name in a form that a line can hold. Empty if there is none, or if it looks like a role in a prompt."""
    try:
        name = model.clean_field(" ".join(said.split())[:64], "a name")
    except InvalidRequest:
        return ""
    return "" if is_role(name, _TAKEN) else name


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return str(value).strip()
