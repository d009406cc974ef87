"""Where things are in a home: the built-in memory of each person, and the journal."""

from __future__ import annotations

import hashlib
from pathlib import Path

from strongroom import cobblestone
from strongroom.host.session import AgentSession

_BUILTIN = "memories"
_PRIVATE_CHATS = ("", "dm", "private")


def journals(home: Path) -> Path:
    """Where hosts keep turns on their way to a provider."""
    return home / "memory-journal"


def builtin(home: Path, session: AgentSession) -> Path:
    """Where an agent's built-in memory is: the owner's own, or one for each person and for each shared chat.

    People who talk to the same gateway must not read each other's notes in the system prompt.
    """
    shared = session.chat_type not in _PRIVATE_CHATS
    chat = session.gateway_session_key or session.chat_id
    whose = chat if shared else (session.user_id_alt or session.user_id or chat)
    if not whose and not shared:
        return home / _BUILTIN
    kind = "chat" if shared else "person"
    parts = (session.agent_identity, session.platform, kind, whose)
    key = cobblestone.context(*(part.encode("utf-8", "surrogatepass") for part in parts))
    return home / _BUILTIN / f"{kind}-{hashlib.sha256(key).hexdigest()[:32]}"
