"""A vault as a service: HTTP and MCP in front of the same transports that embedded callers use.

`http.application` answers requests, `http.request_parser` takes them apart, `http.connection` guards connections,
`rate_limits` slows down whoever asks too much, `executor` runs the vault's calls, `listen` binds and runs. Nothing here
decides: the gate does.
"""
