"""Strongroom in Hermes: the provider, its installer, the shell hooks, and scrubbing of Hermes' history."""
