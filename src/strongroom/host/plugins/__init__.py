"""Providers as plugins: found by name (`discovery`), imported (`loader`), set up (`provider_setup`).

- `manifest` reads a plugin's description of itself.
- `hermes_stubs` supplies the modules that a plugin imports from Hermes.
- `unavailable_reason` says why a provider is not available.
- `env_file` reads and writes the file with the provider's secrets.
"""
