"""Making backbones: ways of training, the loop that runs them, the search for their settings."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
