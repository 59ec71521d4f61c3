"""Testbeds that others run: releases with a card and hashes, frozen suites with a leaderboard."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
