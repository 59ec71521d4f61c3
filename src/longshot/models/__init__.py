"""Networks, the features that they give, the engines that run them, and methods that learn from them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
