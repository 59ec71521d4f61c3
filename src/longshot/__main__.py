"""``python -m longshot`` and the ``longshot`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C while its own libraries are still loading ends as quietly as later."""
    try:
        from longshot.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
