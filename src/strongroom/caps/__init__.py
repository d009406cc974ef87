"""Capabilities: signed chains, what they allow, and how one is narrowed (docs/spec/cap.md)."""
