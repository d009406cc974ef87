"""A vault as a service: HTTP and MCP in front of the same transports that embedded callers use.

`http.application` answers requests, `http.request_parser` parses them, `http.connection` guards connections,
`rate_limits` limits each caller, `executor` runs the vault's calls, `listen` binds and runs. Nothing here decides: the
gate does.
"""
