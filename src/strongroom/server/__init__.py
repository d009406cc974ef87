"""A vault as a service: HTTP and MCP in front of the same transports that embedded callers use.

Over HTTP, `http.connection` guards connections, `http.request_parser` parses requests and `http.application` routes
them. `http.cap_calls` answers requests with a cap, and `http.monitor_routes` answers the others. `rate_limits` limits
each caller, `executor` runs the vault's calls, `periodic_tasks` is the background work, and `listen` opens the socket
and runs the server. No module here decides whether a call is allowed: the gate does.
"""
