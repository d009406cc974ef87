"""The days that a text mentions: `parser` finds them by the grammars beside it."""
