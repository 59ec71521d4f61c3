"""The command line: one thin file per command, imported only when it is called."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
