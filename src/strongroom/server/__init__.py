"""A vault as a service: HTTP and MCP in front of the same doors that embedded callers use.

`app` answers requests, `reading` takes them apart, `limits` slows down who asks too much, `workers` runs the vault's
calls off the event loop, `protocol` guards connections, `serving` binds and runs. Nothing here decides: the gate does.
"""
