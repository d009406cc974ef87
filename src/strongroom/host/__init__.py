"""The runtime side of the memory provider contract: any Python agent can host providers written for Hermes.

- `Host` runs memory providers, and `MemoryManager` is the memory of one agent.
- `AgentCache` keeps the agents of a gateway between messages.
- `resolve_session` makes the name of a session.
- `strongroom.host.plugins` finds providers, and `strongroom.host.conformance` checks them.
"""

from strongroom.host.agent_context import AgentContext, Reach
from strongroom.host.agent_session import AgentSession
from strongroom.host.builtin.builtin_memory import BuiltinMemory
from strongroom.host.cache.agent_cache import AgentCache, User
from strongroom.host.cache.async_agent_cache import AsyncAgentCache
from strongroom.host.cache.settings_file import Watched
from strongroom.host.crash_recovery import Recovered
from strongroom.host.host import Host
from strongroom.host.memory_file_import import migrate_memory_files
from strongroom.host.memory_manager import MemoryManager
from strongroom.host.provider_interface import MemoryProvider
from strongroom.host.provider_limits import Limits
from strongroom.host.session_name import SessionSettings, Strategy, repository_of, resolve_session
from strongroom.host.user_identity import Identity

__all__ = [
    "AgentCache",
    "AgentContext",
    "AgentSession",
    "AsyncAgentCache",
    "BuiltinMemory",
    "Host",
    "Identity",
    "Limits",
    "MemoryManager",
    "MemoryProvider",
    "Reach",
    "Recovered",
    "SessionSettings",
    "Strategy",
    "User",
    "Watched",
    "migrate_memory_files",
    "repository_of",
    "resolve_session",
]
