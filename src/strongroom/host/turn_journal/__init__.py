"""The journal of turns that wait for a provider, sealed on disk."""
