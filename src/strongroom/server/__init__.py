"""A vault as a service: HTTP and MCP in front of the same transports that embedded callers use.

`http.application` routes requests, `http.cap_calls` answers those with a cap and `http.monitor_routes` the others,
`http.request_parser` parses them, `http.connection` guards connections, `rate_limits` limits each caller, `executor`
runs the vault's calls, `periodic_tasks` is its background work, `listen` binds and runs. Nothing here decides: the gate
does.
"""
