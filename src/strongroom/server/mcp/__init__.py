"""The memory as an MCP server: the tools and the profile, for any client that speaks the protocol.

`tools` says what there is, `answers` how an answer reads to a model, `resources` shows the profile, `serving` ties them
to a door, `stdio` and `http` carry it. Everything goes through the same calls as over HTTP: nothing here decides.
"""

from strongroom.server.mcp.http import mcp_app
from strongroom.server.mcp.serving import on_threads, server_for
from strongroom.server.mcp.stdio import run_stdio
from strongroom.server.mcp.tools import TOOLS

__all__ = ["TOOLS", "mcp_app", "on_threads", "run_stdio", "server_for"]
