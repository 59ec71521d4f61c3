"""One application in the browser: the explorer. The verb is ``longshot.serve``."""
