"""Speed against peers and against the version before, as ratios in one run.

python -m benchmarks                    what takes minutes, all of it within half an hour
python -m benchmarks sampling methods   those named, at full size
python -m benchmarks --list             what there is
python -m benchmarks --record           also write the ratios to benchmarks/recorded.json
"""

from __future__ import annotations

import argparse
import ast
import importlib
import pkgutil
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

from benchmarks import goals
from benchmarks.before import Unavailable
from benchmarks.rounds import Ratio

HELPERS = {"before", "goals", "rounds"}  # what benchmarks share; a name with _ is one, too
LONGEST = 27 * 60  # seconds after which none of those below is started, so that all end within half an hour
# Run when none is named, at the size of `quick()` where a benchmark has it: together less than half an hour on two
# cores. The others take long, need data of one's own or ask a question about accuracy.
QUICK = (
    "startup",
    "embedding",
    "demo",
    "maml",
    "finetune",
    "methods",
    "growth",
    "protonet",
    "sampling",
    "semantic",
    "meta_dataset",
    "fastdiffsel",
    "taxonomy",
    "identity",
    "records",
    "memory",
)


def main() -> None:
    names = sorted(
        module.name
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
        if not module.name.startswith("_") and module.name not in HELPERS
    )
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed, as ratios in one run.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="which; without one, those that take minutes"
    )
    parser.add_argument("--list", action="store_true", help="say what there is, and stop")
    parser.add_argument("--record", action="store_true", help="write the ratios to benchmarks/recorded.json")
    arguments = parser.parse_args()
    if arguments.list:
        for name in names:
            print(f"{name:<18} {'' if name in QUICK else '(by name only) '}{_first_line(name)}")
        return
    unknown = [name for name in arguments.names if name not in names]
    if unknown:
        sys.exit(f"error: there is no benchmark {unknown[0]!r}; there are: {', '.join(names)}")
    started = time.monotonic()
    before = goals.read()
    failed = []
    for name in arguments.names or QUICK:
        if not arguments.names and time.monotonic() - started > LONGEST:
            print(f"\n== {name}: not run, the {LONGEST / 60:.0f} minutes are over", flush=True)
            continue
        if not _run(name, quick=not arguments.names):
            failed.append(name)
        if arguments.record:  # after each one: a run that is stopped keeps what it measured
            goals.record(goals.told())
    _compare(before, arguments.record)
    print(f"\n{(time.monotonic() - started) / 60:.1f} minutes in all")
    if not arguments.names:
        print("By name only:", ", ".join(name for name in names if name not in QUICK))
    if failed:
        sys.exit(f"error: these ended with an error, which is above: {', '.join(failed)}")


def _run(name: str, quick: bool) -> bool:
    """Run a benchmark; False where it ended with an error, which is printed: the others still run."""
    print(f"\n== {name}", flush=True)
    sys.argv = [name]  # a benchmark reads words of its own only where it is started by itself
    start = time.monotonic()
    fine = True
    try:
        module = importlib.import_module(f"benchmarks.{name}")
        (getattr(module, "quick", module.main) if quick else module.main)()
    except Unavailable as error:
        print(f"not measured: {error}")
    except Exception:
        traceback.print_exc()
        fine = False
    print(f"== {name}: {time.monotonic() - start:.0f} s", flush=True)
    return fine


def _compare(recorded: Mapping[str, Ratio], record: bool) -> None:
    """Tell what became slower than recorded, and what was written."""
    measured = goals.told()
    print(f"\n== compared with {len(recorded.keys() & measured.keys())} recorded ratios")
    sentences = goals.slower(recorded, measured)
    print("\n".join(sentences) or "nothing became slower by more than a fifth")
    if record:
        print(f"wrote {len(measured)} ratios to benchmarks/recorded.json")


def _first_line(name: str) -> str:
    source = Path(__file__).with_name(f"{name}.py").read_text("utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").split("\n", 1)[0]


if __name__ == "__main__":
    main()
