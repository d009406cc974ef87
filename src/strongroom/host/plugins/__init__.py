"""Providers as plugins: found by name (`discovery`), imported (`loader`), set up (`provider_setup`).

`manifest` reads what a plugin says of itself, `hermes_stubs` supplies what it imports from Hermes, `unavailable_reason`
says why one is not available, `env_file` has its secrets.
"""
