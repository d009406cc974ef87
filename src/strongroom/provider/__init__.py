"""The memory provider for Hermes, and for any runtime that hosts Hermes' providers."""

from strongroom.provider.plugin import StrongroomProvider, register

__all__ = ["StrongroomProvider", "register"]
