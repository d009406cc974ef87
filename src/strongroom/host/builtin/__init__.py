"""The built-in memory: MEMORY.md and USER.md, as Hermes keeps them."""
