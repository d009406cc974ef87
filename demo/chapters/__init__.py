"""What the steps do, one module for each chapter of the story.

In one process: `recall`, `denials`, `tampering`, `erasure`. Served: `http_server`, `mcp_tools`, `user_wall` (an agent
of another user). On S3: `fleet_story` makes most of these steps there again, `fleet_workers` has those that only
several workers need. In other runtimes: `hosted_providers`, and in the real Hermes `hermes_recall`,
`hermes_durability` and `hermes_tools`.
"""
