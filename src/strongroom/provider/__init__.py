"""The former name of `strongroom.hermes.provider`, for homes that were wired with it."""

from strongroom.hermes.provider import StrongroomProvider, register

__all__ = ["StrongroomProvider", "register"]
