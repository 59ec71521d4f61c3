"""Making backbones: ways of training, the loop that runs them, the search for their settings."""

from longshot.training.registry import list_algorithms
from longshot.training.spaces import list_spaces

__all__ = ["list_algorithms", "list_spaces"]
