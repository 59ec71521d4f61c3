"""One application in the browser: the explorer. The verb is ``longshot.serve``."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
