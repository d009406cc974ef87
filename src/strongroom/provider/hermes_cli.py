"""An alias of `strongroom.hermes.provider.hermes_cli` under its former name, for homes that were wired with it."""

from strongroom.hermes.provider.hermes_cli import register_cli, strongroom_command

__all__ = ["register_cli", "strongroom_command"]
