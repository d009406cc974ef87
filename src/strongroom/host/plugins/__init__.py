"""Providers as plugins: found by name (`discovery`), imported (`loader`), set up (`provider_setup`).

`manifest` reads a plugin's description of itself, `hermes_stubs` supplies its imports from Hermes, `unavailable_reason`
says why one is not available, `env_file` has its secrets.
"""
