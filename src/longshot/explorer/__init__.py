"""One application in the browser: the explorer. The verb is ``longshot.serve``."""

import lazy_loader

from longshot.base import Plugin

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

PLUGIN = Plugin(
    "Runs, tasks and datasets in the browser: serve.",
    commands={
        "serve": (
            "longshot.explorer.serving:serve_command",
            "Open every task, mistake and run in the browser.",
        ),
    },
)
