"""The scripted model for the rigs, and what reached it. It is the demonstration's."""

from demo.scripted_model import Answer, Model, Seen

__all__ = ["Answer", "Model", "Seen"]
