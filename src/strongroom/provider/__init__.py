"""An alias of `strongroom.hermes.provider` under its former name, for homes that were wired with it."""

from strongroom.hermes.provider import StrongroomProvider, register

__all__ = ["StrongroomProvider", "register"]
