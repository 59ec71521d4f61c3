"""The public verbs that need more than one room; ``longshot/__init__.py`` lists them all.

A verb that one room can do alone lives in that room (``embed`` in ``features``). A verb that puts rooms together
lives here: ``report`` finds pictures through the registry of datasets, ``sample`` judges tasks with methods.
The command line parses, calls one of these verbs, and prints what it returns.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
