"""Run all benchmarks, or those named: `python -m benchmarks sampling protonet`."""

import importlib
import pkgutil
import sys
import time
from pathlib import Path


def main() -> None:
    here = Path(__file__).parent
    known = sorted(m.name for m in pkgutil.iter_modules([str(here)]) if not m.name.startswith("_"))
    wanted = sys.argv[1:] or known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"error: there is no benchmark {unknown[0]!r}; there are: {', '.join(known)}")
    for name in wanted:
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        importlib.import_module(f"benchmarks.{name}").main()
        print(f"== {name}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
