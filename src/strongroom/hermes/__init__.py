"""Strongroom in Hermes: the memory provider, its installer, the shell hooks, and the scrubbing of Hermes' history."""
