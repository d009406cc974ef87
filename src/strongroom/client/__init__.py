"""The client: `connect` opens a memory on a server, `AsyncMemory` awaits any memory.

Importing this needs nothing but the core; `connect` needs the extra `strongroom[client]`.
"""

from strongroom.client.async_memory import AsyncMemory
from strongroom.client.connect import connect

__all__ = ["AsyncMemory", "connect"]
