"""The operations of a memory, one module for each. An operation asks the gate, prepares effects, and commits them."""
