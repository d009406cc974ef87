"""The client: `connect` opens a memory on a server, and `AsyncMemory` makes any memory's methods awaitable.

Importing this package needs only the core of strongroom. Calling `connect` needs the extra `strongroom[client]`.
"""

from strongroom.client.async_memory import AsyncMemory
from strongroom.client.connect import connect

__all__ = ["AsyncMemory", "connect"]
