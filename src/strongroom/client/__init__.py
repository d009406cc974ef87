"""The client: a memory whose vault is behind a server, and an adapter for asynchronous code.

Importing this needs nothing but the core; `connect` needs the extra `strongroom[client]`.
"""

from strongroom.client.async_memory import AsyncMemory
from strongroom.client.connect import connect

__all__ = ["AsyncMemory", "connect"]
