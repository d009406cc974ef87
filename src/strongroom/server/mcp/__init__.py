"""The memory as an MCP server: the tools and the profile, for any client that speaks the protocol.

`tool_schemas` says what there is, `tool_answers` how an answer reads to a model, `profile_resource` shows the profile,
`mcp_server` ties them to a transport, `stdio` and `streamable_http` carry it. Everything goes through the same calls as
over HTTP: nothing here decides.
"""

from strongroom.server.mcp.mcp_server import on_threads, server_for
from strongroom.server.mcp.stdio import run_stdio
from strongroom.server.mcp.streamable_http import mcp_app
from strongroom.server.mcp.tool_schemas import TOOLS

__all__ = ["TOOLS", "mcp_app", "on_threads", "run_stdio", "server_for"]
