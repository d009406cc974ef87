"""The memory as an MCP server: tools and the profile, for any client that speaks the protocol.

`tool_schemas` and `document_tools` declare the tools, and `mcp_tool` is the type of one. `tool_answers` and
`document_answers` format answers for a model, `profile_resource` shows the profile, and `mcp_server` answers requests
with them. `stdio` and `streamable_http` carry the messages. MCP uses the same calls as HTTP, and no module here decides
whether a call is allowed.
"""

from strongroom.server.mcp.mcp_server import on_threads, server_for
from strongroom.server.mcp.stdio import run_stdio
from strongroom.server.mcp.streamable_http import mcp_app
from strongroom.server.mcp.tool_schemas import TOOLS

__all__ = ["TOOLS", "mcp_app", "on_threads", "run_stdio", "server_for"]
