"""Run all benchmarks, or those named: `python -m benchmarks sampling protonet`."""

import importlib
import pkgutil
import sys
import time
from pathlib import Path


def main() -> None:
    here = Path(__file__).parent
    names = sorted(m.name for m in pkgutil.iter_modules([str(here)]) if not m.name.startswith("_"))
    chosen = sys.argv[1:] or names
    unknown = [name for name in chosen if name not in names]
    if unknown:
        sys.exit(f"error: there is no benchmark {unknown[0]!r}; there are: {', '.join(names)}")
    for name in chosen:
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        importlib.import_module(f"benchmarks.{name}").main()
        print(f"== {name}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
