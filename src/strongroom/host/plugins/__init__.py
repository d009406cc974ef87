"""Providers as plugins: found by name (`discovery`), imported (`loading`), set up (`setting_up`).

`manifest` reads what a plugin says of itself, `names` supplies what it imports from Hermes, `reasons` says why one is
not available, `envfile` has its secrets.
"""
