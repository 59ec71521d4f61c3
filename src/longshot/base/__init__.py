"""What every room may use: errors, files, settings, progress, ragged lists, tasks, devices."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
