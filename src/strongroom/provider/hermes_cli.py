"""The former name of `strongroom.hermes.provider.hermes_cli`, for homes that were wired with it."""

from strongroom.hermes.provider.hermes_cli import register_cli, strongroom_command

__all__ = ["register_cli", "strongroom_command"]
