"""Agents that a gateway keeps between messages."""
