"""From a verdict to a classifier: which photos to take as references, and a model folder to ship."""

import lazy_loader

from longshot.base import Plugin

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

PLUGIN = Plugin("References to take, a classifier to ship: choose, fit, predict, export.")
