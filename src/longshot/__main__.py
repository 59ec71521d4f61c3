"""``python -m longshot`` and the ``longshot`` command."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line; Ctrl-C while its own libraries are still loading ends as quietly as later."""
    # Imports make objects by the ten thousand, and all stay: looking for rubbish among them takes a tenth of the time.
    gc.set_threshold(50_000, 10, 10)
    try:
        from longshot.cli import run_command_line

        run_command_line()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
