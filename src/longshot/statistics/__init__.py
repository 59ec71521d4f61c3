"""Statistics over tasks: pure functions of arrays; docs/reference/statistics.md says when to use which."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
