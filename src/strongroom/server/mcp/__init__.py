"""The memory as an MCP server: tools and the profile, for any client that speaks the protocol.

`tool_schemas` declares the tools, `tool_answers` formats answers for a model, `profile_resource` shows the profile,
`mcp_server` connects them to a transport, `stdio` and `streamable_http` carry it. Everything uses the same calls as
HTTP: nothing here decides.
"""

from strongroom.server.mcp.mcp_server import on_threads, server_for
from strongroom.server.mcp.stdio import run_stdio
from strongroom.server.mcp.streamable_http import mcp_app
from strongroom.server.mcp.tool_schemas import TOOLS

__all__ = ["TOOLS", "mcp_app", "on_threads", "run_stdio", "server_for"]
