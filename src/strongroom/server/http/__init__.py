"""HTTP: connections, parsing of requests, routes."""
