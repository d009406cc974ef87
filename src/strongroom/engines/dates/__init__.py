"""Days that a text speaks of: `parser` finds them by the grammars beside it."""
