"""What two datasets share, and what is doubtful in one: copies, related classes, labels; datasets without them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
