"""Messages to an MCP server, by hand."""

from __future__ import annotations

from typing import Any

ACCEPT = {"Accept": "application/json, text/event-stream"}
MODERN = "2026-07-28"


def tool_call(
    name: str = "memory_list", *, era: str = "legacy", **arguments: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    """A call of a tool, and its headers."""
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    headers = dict(ACCEPT)
    if era == "modern":
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": name}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers
