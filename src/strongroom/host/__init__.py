"""The runtime side of the memory provider contract: any Python agent can host providers written for Hermes.

`Host` runs them, `MemoryManager` is the memory of one agent, `AgentCache` keeps the agents of a gateway,
`resolve_session` names sessions. `strongroom.host.plugins` finds providers, `strongroom.host.conformance` checks them.
"""

from strongroom.host.builtin import BuiltinMemory
from strongroom.host.cache import AgentCache, User
from strongroom.host.cache.awaiting import AsyncAgentCache
from strongroom.host.cache.watching import Watched
from strongroom.host.contexts import AgentContext, Reach
from strongroom.host.hosting import Host
from strongroom.host.identity import Identity
from strongroom.host.limits import Limits
from strongroom.host.manager import MemoryManager
from strongroom.host.migrating import migrate_memory_files
from strongroom.host.naming import SessionSettings, Strategy, repository_of, resolve_session
from strongroom.host.provider import MemoryProvider
from strongroom.host.recovering import Recovered
from strongroom.host.session import AgentSession

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
