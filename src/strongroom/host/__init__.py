"""The runtime side of the memory provider contract: any Python agent can host providers written for Hermes.

`Host` runs them, `MemoryManager` is the memory of one agent, `AgentCache` keeps the agents of a gateway,
`resolve_session` names sessions. `strongroom.host.conformance` checks a provider against the contract.
"""

from strongroom.host.contexts import AgentContext, Reach
from strongroom.host.hosting import Host
from strongroom.host.limits import Limits
from strongroom.host.manager import MemoryManager
from strongroom.host.provider import MemoryProvider
from strongroom.host.recovering import Recovered
from strongroom.host.session import AgentSession

__all__ = [
    "AgentContext",
    "AgentSession",
    "Host",
    "Limits",
    "MemoryManager",
    "MemoryProvider",
    "Reach",
    "Recovered",
]
