"""The scripted model for the rigs, and what reached it. The package ships it for its demonstration."""

from strongroom.cli.demonstration.scripted import Answer, Model, Seen

__all__ = ["Answer", "Model", "Seen"]
