"""The memory provider for Hermes, and for any runtime that hosts Hermes' providers."""

from strongroom.hermes.provider.hermes_provider import StrongroomProvider, register

__all__ = ["StrongroomProvider", "register"]
