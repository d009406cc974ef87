"""Paths in a home: the built-in memory of each person and shared chat, and the journal of waiting turns."""

from __future__ import annotations

from pathlib import Path

from strongroom.host.agent_session import TERMINAL, AgentSession
from strongroom.host.session_name import digest

_BUILTIN = "memories"
_PRIVATE_CHATS = ("", "dm", "private")
_ALWAYS = ("platform", "agent_identity", "chat_type", "gateway_session_key")
_PEOPLE = ("user_id", "user_id_alt")
_CHATS = ("chat_type", "chat_id", "gateway_session_key")


def journals(home: Path) -> Path:
    """The directory in which hosts keep turns until the provider has taken them."""
    return home / "memory-journal"


def builtin(home: Path, session: AgentSession) -> Path:
    """The directory of an agent's built-in memory: one for the owner, each other person and each shared chat.

    The directories are separate because people who talk to one gateway must not read each other's notes in the system
    prompt.
    """
    chats = (("key", session.gateway_session_key), ("chat", session.chat_id))
    people = (("alt", session.user_id_alt), ("id", session.user_id), *chats)
    shared = session.chat_type not in _PRIVATE_CHATS
    # A shared chat without a key or an id gets a directory of its session's own, never one that others share.
    known = (*chats, ("session", session.id)) if shared else people
    whose = next(((kind, name) for kind, name in known if name), None)
    if whose is None:
        return home / _BUILTIN
    name = digest(session.agent_identity, session.platform, *whose)[:32]
    return home / _BUILTIN / f"{'chat' if shared else 'person'}-{name}"


def unsaid(session: AgentSession) -> list[str]:
    """The identity fields that a session lacks. Without them, the directory of its built-in memory is not determined.

    Empty for the owner at a terminal. Each field is part of the directory's name. Without a field, an agent would get
    the notes of another person or of the owner.
    """
    people = any(getattr(session, name) for name in _PEOPLE)
    if session.platform == TERMINAL and not people and not any(getattr(session, name) for name in _CHATS):
        return []
    missing = [name for name in _ALWAYS if not getattr(session, name)]
    return missing + (["user_id"] if session.chat_type in _PRIVATE_CHATS and not people else [])
