"""Why a task is hard: what its support and queries look like, and where they differ more than chance allows."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
