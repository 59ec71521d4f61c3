"""The command line: thin commands in files by subject, imported only when they are called."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
