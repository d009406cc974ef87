"""The operations of a memory, one module each: admit, prepare, commit, answer."""
