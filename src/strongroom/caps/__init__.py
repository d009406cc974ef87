"""Capabilities: signed chains of links, what they allow, and how a cap is narrowed (docs/spec/cap.md)."""
