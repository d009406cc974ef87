"""Turns on their way to a provider, sealed on disk."""
