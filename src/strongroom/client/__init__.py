"""The client: a memory whose vault is behind a server, and an adapter for asynchronous code.

Importing this needs nothing but the core; `connect` needs the extra `strongroom[client]`.
"""

from strongroom.client.awaiting import AsyncMemory
from strongroom.client.connecting import connect

__all__ = ["AsyncMemory", "connect"]
