"""Finds the days that a text mentions. `parser` is the entry point; the other modules hold its grammars."""
